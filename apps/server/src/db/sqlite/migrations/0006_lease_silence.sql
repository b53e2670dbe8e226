ALTER TABLE `fetches` ADD `lease_silent_ms` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `jobs` ADD `lease_silent_ms` integer DEFAULT 0 NOT NULL;