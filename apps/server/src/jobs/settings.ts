import { z } from 'zod';
import { optional, parsedBy, type SettingsOf, setting, wholeNumber } from '../base/settings.ts';
import { parseRedisUrl } from './bullmq/redis-location.ts';

/** Its errors do not repeat the address, which holds a password. */
const redisUrl = parsedBy(
  (text) => {
    parseRedisUrl(text);
    return text;
  },
  RangeError,
  (reason) => `must be the address of a Redis: ${reason}`,
);

export const jobSettings = {
  /** The engine that hands out jobs: the database itself, or BullMQ. */
  queue: setting('MDS_QUEUE', z.enum(['embedded', 'bullmq'], 'must be embedded or bullmq').default('embedded')),
  /** The Redis that holds BullMQ's copies of the jobs, with its password; null: they are in PostgreSQL, beside the rows. */
  queueUrl: setting('MDS_QUEUE_URL', optional(redisUrl)),
  /** Media of one project that may wait to be processed. */
  maxQueuedJobs: setting('MDS_MAX_QUEUED_JOBS', wholeNumber(1, 1_000_000_000).default(100_000)),
};
export type JobSettings = SettingsOf<typeof jobSettings>;

/** Conflicts between the settings of the queue and that of the database, each with a fix. */
export function queueConflicts({
  queue,
  queueUrl,
  databaseUrl,
}: JobSettings & { databaseUrl: string | null }): string[] {
  const problems: string[] = [];
  if (queue === 'bullmq' && databaseUrl === null) {
    problems.push(
      'MDS_QUEUE: bullmq hands out jobs whose rows are in PostgreSQL. Set MDS_DATABASE_URL as well, or leave this out for the queue in the data folder',
    );
  }
  if (queueUrl !== null && queue !== 'bullmq') {
    problems.push(
      'MDS_QUEUE_URL: names the Redis for the copies of the jobs that BullMQ makes, and the embedded queue makes none. Set MDS_QUEUE=bullmq as well, or leave this out',
    );
  }
  return problems;
}
