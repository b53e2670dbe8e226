import { and, asc, desc, eq } from 'drizzle-orm';
import {
  type AttemptOutcome,
  type AttemptRecord,
  type AttemptReport,
  KEPT_ATTEMPTS,
  type Lease,
} from '../job-queue.ts';
import type { SqliteDatabase } from './database.ts';
import { keepLatest } from './keep-latest.ts';
import { processingAttempts } from './schema.ts';

type Reader = Pick<SqliteDatabase, 'select'>;
type Writer = Pick<SqliteDatabase, 'select' | 'insert' | 'update' | 'delete'>;

/**
 * Notes that a run of a job has begun; inside the transaction of its claim. Runs of a media object are numbered as they come, those too
 * that its job does not count.
 */
export function beginAttempt(tx: Writer, lease: Lease & { worker: string }, nowMs: number): void {
  const { mediaId, token, worker } = lease;
  const latest = tx
    .select({ attempt: processingAttempts.attempt })
    .from(processingAttempts)
    .where(eq(processingAttempts.mediaId, mediaId))
    .orderBy(desc(processingAttempts.id))
    .limit(1)
    .get();
  const attempt = (latest?.attempt ?? 0) + 1;
  tx.insert(processingAttempts)
    .values({ mediaId, leaseToken: token, attempt, worker, startedAtMs: nowMs, outcome: 'running' })
    .run();
  const group = eq(processingAttempts.mediaId, mediaId);
  keepLatest(tx, { table: processingAttempts, group, column: processingAttempts.id, keep: KEPT_ATTEMPTS });
}

/** Notes how the run under a lease ended; inside the transaction that ends the lease. */
export function endAttempt(
  tx: Writer,
  token: string,
  ending: {
    outcome: AttemptOutcome;
    endedAtMs: number | null;
    failure?: AttemptRecord['failure'];
    report?: AttemptReport | null;
  },
): void {
  tx.update(processingAttempts)
    .set({
      outcome: ending.outcome,
      endedAtMs: ending.endedAtMs,
      failure: ending.failure ?? null,
      report: ending.report ?? null,
    })
    .where(and(eq(processingAttempts.leaseToken, token), eq(processingAttempts.outcome, 'running')))
    .run();
}

/** The runs of a media object's jobs that are kept, oldest first. */
export function attemptsOf(db: Reader, mediaId: string): AttemptRecord[] {
  return db
    .select()
    .from(processingAttempts)
    .where(eq(processingAttempts.mediaId, mediaId))
    .orderBy(asc(processingAttempts.id))
    .all();
}
