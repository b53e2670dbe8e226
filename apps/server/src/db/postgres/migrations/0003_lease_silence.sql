ALTER TABLE "fetches" ADD COLUMN "lease_silent_ms" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "jobs" ADD COLUMN "lease_silent_ms" bigint DEFAULT 0 NOT NULL;