CREATE TABLE `piece_digests` (
	`sha256` text PRIMARY KEY NOT NULL,
	`digests` blob NOT NULL
);
--> statement-breakpoint
CREATE INDEX `renditions_by_large_content` ON `media_renditions` (`sha256`) WHERE bytes > 1048576;--> statement-breakpoint
CREATE INDEX `rendition_files_by_large_content` ON `rendition_files` (`sha256`) WHERE bytes > 1048576;