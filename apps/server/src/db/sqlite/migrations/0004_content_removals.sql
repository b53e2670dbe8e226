CREATE TABLE `content_removals` (
	`sha256` text PRIMARY KEY NOT NULL,
	`since_ms` integer NOT NULL
);
