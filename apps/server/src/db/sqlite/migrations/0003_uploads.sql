CREATE TABLE `uploads` (
	`id` text PRIMARY KEY NOT NULL,
	`project_id` text NOT NULL,
	`token_sha256` text NOT NULL,
	`created_at_ms` integer NOT NULL,
	`expires_at_ms` integer NOT NULL,
	`metadata` text,
	`filename` text,
	`duplicate` text NOT NULL,
	`idempotency_key` text,
	`expected_sha256` text,
	`length` integer,
	`state` text NOT NULL,
	`media_id` text,
	`media_created` integer,
	`failure` text,
	`lock_holder` text,
	`lock_beat` integer DEFAULT 0 NOT NULL,
	`lock_release_requested` integer DEFAULT false NOT NULL,
	FOREIGN KEY (`project_id`) REFERENCES `projects`(`id`) ON UPDATE no action ON DELETE cascade
);
--> statement-breakpoint
CREATE INDEX `uploads_by_token` ON `uploads` (`token_sha256`,`state`);--> statement-breakpoint
CREATE INDEX `uploads_by_state` ON `uploads` (`state`,`id`);--> statement-breakpoint
CREATE INDEX `uploads_by_expiry` ON `uploads` (`state`,`expires_at_ms`);--> statement-breakpoint
CREATE INDEX `uploads_by_lock` ON `uploads` (`lock_holder`);