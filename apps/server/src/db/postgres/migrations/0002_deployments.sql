CREATE TABLE "deployments" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"created_at_ms" bigint NOT NULL
);
