ALTER TABLE "workers" ADD COLUMN "host" text COLLATE "C";--> statement-breakpoint
ALTER TABLE "workers" ADD COLUMN "region" text COLLATE "C";--> statement-breakpoint
ALTER TABLE "workers" ADD COLUMN "since_ms" bigint;