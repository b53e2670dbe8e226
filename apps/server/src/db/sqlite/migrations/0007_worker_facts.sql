ALTER TABLE `workers` ADD `host` text;--> statement-breakpoint
ALTER TABLE `workers` ADD `region` text;--> statement-breakpoint
ALTER TABLE `workers` ADD `since_ms` integer;