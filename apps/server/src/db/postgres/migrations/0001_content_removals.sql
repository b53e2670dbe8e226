CREATE TABLE "content_removals" (
	"sha256" text COLLATE "C" PRIMARY KEY NOT NULL,
	"since_ms" bigint NOT NULL
);
