import { DEFAULT_PRIORITY } from '../job-rules.ts';
import { inChunks } from './in-chunks.ts';
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
  const rows = mediaIds.map((mediaId) => ({ mediaId, priority, dueAtMs: nowMs }));
  for (const chunk of inChunks(rows)) {
    await db.insert(jobs).values(chunk).onConflictDoNothing({ target: jobs.mediaId });
  }
}
