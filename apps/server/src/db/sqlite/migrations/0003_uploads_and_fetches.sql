CREATE TABLE `fetches` (
	`id` text PRIMARY KEY NOT NULL,
	`project_id` text NOT NULL,
	`created_at_ms` integer NOT NULL,
	`updated_at_ms` integer NOT NULL,
	`source_url` text NOT NULL,
	`request_sha256` text NOT NULL,
	`idempotency_key` text,
	`filename` text,
	`duplicate` text NOT NULL,
	`status` text NOT NULL,
	`received_bytes` integer DEFAULT 0 NOT NULL,
	`total_bytes` integer,
	`validator` text,
	`attempts` integer DEFAULT 0 NOT NULL,
	`fruitless_attempts` integer DEFAULT 0 NOT NULL,
	`spent_ms` integer DEFAULT 0 NOT NULL,
	`due_at_ms` integer NOT NULL,
	`accepting` integer DEFAULT false NOT NULL,
	`media_id` text,
	`media_created` integer,
	`failure` text,
	`lease_token` text,
	`lease_beat` integer DEFAULT 0 NOT NULL,
	FOREIGN KEY (`project_id`) REFERENCES `projects`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `fetches_by_project` ON `fetches` (`project_id`,`id`);--> statement-breakpoint
CREATE INDEX `fetches_by_project_status` ON `fetches` (`project_id`,`status`,`id`);--> statement-breakpoint
CREATE INDEX `fetches_due` ON `fetches` (`status`,`due_at_ms`,`id`);--> statement-breakpoint
CREATE UNIQUE INDEX `fetches_idempotency` ON `fetches` (`project_id`,`idempotency_key`);--> statement-breakpoint
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