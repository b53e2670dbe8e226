CREATE TABLE `assets` (
	`id` text PRIMARY KEY NOT NULL,
	`region` text NOT NULL,
	`path` text NOT NULL,
	`created_at_ms` integer NOT NULL,
	`bytes` integer NOT NULL,
	`cache_status` text NOT NULL,
	`request_seq` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `assets_latest_in_region` ON `assets` (`region`,`request_seq`);--> statement-breakpoint
CREATE INDEX `assets_latest` ON `assets` (`request_seq`);--> statement-breakpoint
CREATE UNIQUE INDEX `assets_by_path` ON `assets` (`region`,`path`);--> statement-breakpoint
CREATE TABLE `events` (
	`seq` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`project_id` text,
	`type` text NOT NULL,
	`data` text NOT NULL,
	`created_at_ms` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `format_proofs` (
	`engine_key` text NOT NULL,
	`format_id` text NOT NULL,
	`ok` integer NOT NULL,
	`reason` text,
	PRIMARY KEY(`engine_key`, `format_id`)
);
--> statement-breakpoint
CREATE TABLE `jobs` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`media_id` text NOT NULL,
	`priority` integer NOT NULL,
	`due_at_ms` integer NOT NULL,
	`attempts` integer DEFAULT 0 NOT NULL,
	`lost_leases` integer DEFAULT 0 NOT NULL,
	`lease_token` text,
	`lease_worker` text,
	`lease_beat` integer DEFAULT 0 NOT NULL,
	`last_reason` text,
	`progress` real,
	FOREIGN KEY (`media_id`) REFERENCES `media`(`id`) ON UPDATE no action ON DELETE cascade
);
--> statement-breakpoint
CREATE UNIQUE INDEX `jobs_media_id_unique` ON `jobs` (`media_id`);--> statement-breakpoint
CREATE INDEX `jobs_due` ON `jobs` (`lease_token`,`priority`,`id`);--> statement-breakpoint
CREATE TABLE `media` (
	`id` text PRIMARY KEY NOT NULL,
	`project_id` text NOT NULL,
	`created_at_ms` integer NOT NULL,
	`content_type` text NOT NULL,
	`bytes` integer NOT NULL,
	`width` integer NOT NULL,
	`height` integer NOT NULL,
	`status` text NOT NULL,
	`filename` text,
	`sha256` text NOT NULL,
	`kind` text NOT NULL,
	`format` text NOT NULL,
	`duration_ms` integer,
	`codecs` text NOT NULL,
	`thumbhash` text,
	`warnings` text NOT NULL,
	`identified` text NOT NULL,
	`failure` text,
	`attempts` integer DEFAULT 0 NOT NULL,
	`idempotency_key` text,
	FOREIGN KEY (`project_id`) REFERENCES `projects`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `media_by_project` ON `media` (`project_id`,`id`);--> statement-breakpoint
CREATE INDEX `media_by_project_status` ON `media` (`project_id`,`status`,`id`);--> statement-breakpoint
CREATE INDEX `media_by_content` ON `media` (`sha256`,`project_id`);--> statement-breakpoint
CREATE UNIQUE INDEX `media_idempotency` ON `media` (`project_id`,`idempotency_key`);--> statement-breakpoint
CREATE TABLE `media_renditions` (
	`media_id` text NOT NULL,
	`name` text NOT NULL,
	`extension` text NOT NULL,
	`content_type` text NOT NULL,
	`revision` text NOT NULL,
	`current` integer NOT NULL,
	`state` text NOT NULL,
	`reason` text,
	`object_key` text,
	`sha256` text,
	`bytes` integer,
	`files` integer,
	`width` integer,
	`height` integer,
	`updated_at_ms` integer NOT NULL,
	PRIMARY KEY(`media_id`, `name`, `extension`, `revision`),
	FOREIGN KEY (`media_id`) REFERENCES `media`(`id`) ON UPDATE no action ON DELETE cascade
);
--> statement-breakpoint
CREATE INDEX `renditions_by_object` ON `media_renditions` (`object_key`);--> statement-breakpoint
CREATE TABLE `processing_attempts` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`media_id` text NOT NULL,
	`lease_token` text NOT NULL,
	`attempt` integer NOT NULL,
	`worker` text NOT NULL,
	`started_at_ms` integer NOT NULL,
	`ended_at_ms` integer,
	`outcome` text NOT NULL,
	`failure` text,
	`report` text,
	FOREIGN KEY (`media_id`) REFERENCES `media`(`id`) ON UPDATE no action ON DELETE cascade
);
--> statement-breakpoint
CREATE UNIQUE INDEX `processing_attempts_lease_token_unique` ON `processing_attempts` (`lease_token`);--> statement-breakpoint
CREATE INDEX `attempts_of_media` ON `processing_attempts` (`media_id`,`id`);--> statement-breakpoint
CREATE TABLE `project_hosts` (
	`host` text PRIMARY KEY NOT NULL,
	`project_id` text NOT NULL,
	FOREIGN KEY (`project_id`) REFERENCES `projects`(`id`) ON UPDATE no action ON DELETE cascade
);
--> statement-breakpoint
CREATE TABLE `projects` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`created_at_ms` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `region_nodes` (
	`id` text PRIMARY KEY NOT NULL,
	`region` text NOT NULL,
	`beat` integer NOT NULL,
	`seen_at_ms` integer NOT NULL,
	FOREIGN KEY (`region`) REFERENCES `regions`(`code`) ON UPDATE no action ON DELETE cascade
);
--> statement-breakpoint
CREATE TABLE `regions` (
	`code` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`zone` text NOT NULL,
	`country` text NOT NULL,
	`maintenance` integer DEFAULT false NOT NULL
);
--> statement-breakpoint
CREATE TABLE `rendition_files` (
	`media_id` text NOT NULL,
	`name` text NOT NULL,
	`extension` text NOT NULL,
	`revision` text NOT NULL,
	`file` text NOT NULL,
	`content_type` text NOT NULL,
	`object_key` text NOT NULL,
	`sha256` text NOT NULL,
	`bytes` integer NOT NULL,
	PRIMARY KEY(`media_id`, `name`, `revision`, `file`),
	FOREIGN KEY (`media_id`,`name`,`extension`,`revision`) REFERENCES `media_renditions`(`media_id`,`name`,`extension`,`revision`) ON UPDATE no action ON DELETE cascade
);
--> statement-breakpoint
CREATE INDEX `rendition_files_by_object` ON `rendition_files` (`object_key`);--> statement-breakpoint
CREATE TABLE `tokens` (
	`sha256` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`project_id` text NOT NULL,
	`scope` text NOT NULL,
	`created_at_ms` integer NOT NULL,
	FOREIGN KEY (`project_id`) REFERENCES `projects`(`id`) ON UPDATE no action ON DELETE cascade
);
--> statement-breakpoint
CREATE TABLE `versions` (
	`name` text PRIMARY KEY NOT NULL,
	`value` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `workers` (
	`id` text PRIMARY KEY NOT NULL,
	`pid` integer NOT NULL,
	`concurrency` integer NOT NULL,
	`beat` integer NOT NULL
);
