import { DEFAULT_PRIORITY } from '../job-rules.ts';
import { jobs } from './schema.ts';
import type { Transaction } from './transaction.ts';

/** Gives media a job each, due at once; one that is under way or waiting will do. @param job.priority the lower, the sooner */
export async function enqueue(
  { db }: Transaction,
  {
    mediaIds,
    nowMs,
    priority = DEFAULT_PRIORITY,
  }: { mediaIds: readonly string[]; nowMs: number; priority?: number | undefined },
): Promise<void> {
  if (mediaIds.length === 0) return;
  const rows = mediaIds.map((mediaId) => ({ mediaId, priority, dueAtMs: nowMs }));
  await db.insert(jobs).values(rows).onConflictDoNothing({ target: jobs.mediaId });
}
