CREATE TABLE `deployments` (
	`id` text PRIMARY KEY NOT NULL,
	`created_at_ms` integer NOT NULL
);
