import { and, asc, eq, sql } from 'drizzle-orm';
import type { Dialect, Transaction } from './dialect.ts';
import { mediaEvent } from './event-data.ts';
import { type AttemptRecord, KEPT_ATTEMPTS, type Lease } from './job-queue.ts';
import { DEFAULT_PRIORITY } from './job-rules.ts';
import { keepLatest } from './keep-latest.ts';
import type { MediaFailureRecord } from './media-repository.ts';
import type { RenditionRows } from './rendition-rows.ts';
import type { Tables } from './tables.ts';

/** How a run of a job ended. */
type AttemptEnd = Pick<AttemptRecord, 'outcome' | 'endedAtMs'> & Partial<Pick<AttemptRecord, 'failure' | 'report'>>;

/** The writes of jobs that the queue and the media repository share, in their transactions. */
export interface MediaJobs {
  /** Gives each media object a job that is due at once, unless it has one. @param job.priority the lower, the sooner */
  enqueue(
    tx: Transaction,
    job: { mediaIds: readonly string[]; nowMs: number; priority?: number | undefined },
  ): Promise<void>;
  /**
   * Locks a media object and then its job, if the lease is still held. A deletion locks them in the same order, so that
   * the two never deadlock. @returns the job, or null if the lease is lost
   */
  lockHeld(tx: Transaction, lease: Pick<Lease, 'mediaId' | 'token'>): Promise<Tables['jobs']['$inferSelect'] | null>;
  /** Records that a run of a job has begun. Runs of a media object are numbered in order, also those that its job does not count. */
  beginAttempt(tx: Pick<Transaction, 'db'>, lease: Lease & { worker: string }, nowMs: number): Promise<void>;
  /** Records how the run under a lease ended. */
  endAttempt(tx: Transaction, token: string, end: AttemptEnd): Promise<void>;
  /** The runs of a media object's jobs that are kept, oldest first. */
  attempts(mediaId: string): Promise<AttemptRecord[]>;
  /** Ends the processing of a media object for good. The caller has the right to do so. */
  fail(
    tx: Transaction,
    end: Pick<Lease, 'jobId' | 'mediaId' | 'attempt'> & { failure: MediaFailureRecord; nowMs: number },
  ): Promise<void>;
}

/** Creates {@link MediaJobs}. */
export function createMediaJobs({ tables, read, lockRows, insertAll }: Dialect, renditions: RenditionRows): MediaJobs {
  const { jobs, media, mediaRenditions, processingAttempts: attempts } = tables;
  return {
    async enqueue({ db }, { mediaIds, nowMs, priority = DEFAULT_PRIORITY }) {
      const rows = mediaIds.map((mediaId) => ({ mediaId, priority, dueAtMs: nowMs }));
      await insertAll('enqueue_jobs', rows, (some) =>
        db.insert(jobs).values(some).onConflictDoNothing({ target: jobs.mediaId }),
      );
    },

    async lockHeld({ db }, { mediaId, token }) {
      const object = db.select({ id: media.id }).from(media).where(eq(media.id, mediaId));
      await lockRows(object, { strength: 'no key update' });
      const held = and(eq(jobs.mediaId, mediaId), eq(jobs.leaseToken, token));
      const [job] = await lockRows(db.select().from(jobs).where(held), { strength: 'update' });
      return job ?? null;
    },

    async beginAttempt({ db }, { mediaId, token, worker }, nowMs) {
      const group = eq(attempts.mediaId, mediaId);
      // In one statement, because every claim waits for it.
      const next = sql<number>`(SELECT coalesce(max(${attempts.attempt}), 0) + 1 FROM ${attempts} WHERE ${group})`;
      const begun = { mediaId, leaseToken: token, worker, startedAtMs: nowMs, outcome: 'running' as const };
      const [row] = await db
        .insert(attempts)
        .values({ ...begun, attempt: next })
        .returning({ attempt: attempts.attempt });
      if ((row?.attempt ?? 0) <= KEPT_ATTEMPTS) return;
      await keepLatest(db, { table: attempts, group, column: attempts.id, keep: KEPT_ATTEMPTS });
    },

    async endAttempt({ db }, token, { failure = null, report = null, ...end }) {
      const running = and(eq(attempts.leaseToken, token), eq(attempts.outcome, 'running'));
      await db
        .update(attempts)
        .set({ ...end, failure, report })
        .where(running);
    },

    attempts: async (mediaId) =>
      read.select().from(attempts).where(eq(attempts.mediaId, mediaId)).orderBy(asc(attempts.id)),

    async fail(tx, { jobId, mediaId, attempt, failure, nowMs }) {
      // Before the event of the media object itself, as events of renditions that became ready are.
      const pending = and(eq(mediaRenditions.mediaId, mediaId), eq(mediaRenditions.state, 'pending'));
      await renditions.fail(tx, pending, { reason: failure.message, updatedAtMs: nowMs });
      // A media object that was ready is still delivered with its ready renditions.
      const status = sql`CASE ${media.status} WHEN 'ready' THEN 'ready' ELSE 'failed' END`;
      const change = { status, failure, attempts: attempt };
      const [failed] = await tx.db.update(media).set(change).where(eq(media.id, mediaId)).returning();
      if (failed?.status === 'failed') tx.append(mediaEvent('media.failed', failed));
      await tx.db.delete(jobs).where(eq(jobs.id, jobId));
    },
  };
}
