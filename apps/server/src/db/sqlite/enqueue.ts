import { DEFAULT_PRIORITY } from '../job-rules.ts';
import { jobs } from './schema.ts';
import type { Transaction } from './transaction.ts';

/** Gives a media object a job, due at once; one that is under way or waiting will do. @param job.priority the lower, the sooner */
export function enqueue(
  tx: Transaction,
  { mediaId, nowMs, priority = DEFAULT_PRIORITY }: { mediaId: string; nowMs: number; priority?: number | undefined },
): void {
  tx.insert(jobs).values({ mediaId, priority, dueAtMs: nowMs }).onConflictDoNothing({ target: jobs.mediaId }).run();
}
