import { and, asc, eq, sql } from 'drizzle-orm';
import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
import {
  type AttemptOutcome,
  type AttemptRecord,
  type AttemptReport,
  KEPT_ATTEMPTS,
  type Lease,
} from '../job-queue.ts';
import { keepLatest } from './keep-latest.ts';
import { processingAttempts } from './schema.ts';
import type { Transaction } from './transaction.ts';

/**
 * Notes that a run of a job has begun; inside the transaction of its claim. Runs of a media object are numbered as they come, those too
 * that its job does not count.
 */
export async function beginAttempt(
  { db }: Pick<Transaction, 'db'>,
  { mediaId, token, worker }: Lease & { worker: string },
  nowMs: number,
): Promise<void> {
  const group = eq(processingAttempts.mediaId, mediaId);
  // In one statement, as every claim waits for it.
  const next = sql<number>`(SELECT coalesce(max(${processingAttempts.attempt}), 0) + 1 FROM ${processingAttempts} WHERE ${group})`;
  const [begun] = await db
    .insert(processingAttempts)
    .values({ mediaId, leaseToken: token, attempt: next, worker, startedAtMs: nowMs, outcome: 'running' })
    .returning({ attempt: processingAttempts.attempt });
  if ((begun?.attempt ?? 0) <= KEPT_ATTEMPTS) return;
  await keepLatest(db, { table: processingAttempts, group, column: processingAttempts.id, keep: KEPT_ATTEMPTS });
}

/** Notes how the run under a lease ended; inside the transaction that ends the lease. */
export async function endAttempt(
  { db }: Transaction,
  token: string,
  ending: {
    outcome: AttemptOutcome;
    endedAtMs: number | null;
    failure?: AttemptRecord['failure'];
    report?: AttemptReport | null;
  },
): Promise<void> {
  const { outcome, endedAtMs, failure = null, report = null } = ending;
  await db
    .update(processingAttempts)
    .set({ outcome, endedAtMs, failure, report })
    .where(and(eq(processingAttempts.leaseToken, token), eq(processingAttempts.outcome, 'running')));
}

/** The runs of a media object's jobs that are kept, oldest first. */
export async function attemptsOf(db: NodePgDatabase, mediaId: string): Promise<AttemptRecord[]> {
  return db
    .select()
    .from(processingAttempts)
    .where(eq(processingAttempts.mediaId, mediaId))
    .orderBy(asc(processingAttempts.id));
}
