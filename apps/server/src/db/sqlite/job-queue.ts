import { and, asc, eq, isNull, lte, sql } from 'drizzle-orm';
import { ulid } from 'ulid';
import { type JobQueue, MAX_LOST_LEASES } from '../../jobs/job-queue.ts';
import { bumpVersion, type SqliteDatabase } from './database.ts';
import { failMedium, LOST_LEASES_FAILURE } from './media-repository.ts';
import { jobs, media, workers } from './schema.ts';

const WRITE = { behavior: 'immediate' } as const;

/** A job is never kept waiting longer than this by a wall clock that was set back. */
const LONGEST_DELAY_MS = 10 * 60_000;

/** {@link JobQueue} in the same SQLite file as the media. @param now the wall clock, milliseconds since the epoch */
export function createJobQueue(db: SqliteDatabase, now: () => number = Date.now): JobQueue {
  const isDue = () => sql`(${jobs.dueAtMs} <= ${now()} OR ${jobs.dueAtMs} > ${now() + LONGEST_DELAY_MS})`;
  const release = { leaseToken: null, leaseWorker: null };

  return {
    async claim(worker) {
      return db.transaction((tx) => {
        const due = tx
          .select()
          .from(jobs)
          .where(and(isNull(jobs.leaseToken), isDue()))
          .orderBy(asc(jobs.priority), asc(jobs.id))
          .limit(1)
          .get();
        if (!due) return null;
        const token = ulid(now());
        tx.update(jobs).set({ leaseToken: token, leaseWorker: worker, leaseBeat: 0 }).where(eq(jobs.id, due.id)).run();
        return { jobId: due.id, mediaId: due.mediaId, token, attempt: due.attempts + 1 };
      }, WRITE);
    },

    async renew(lease) {
      const { changes } = db
        .update(jobs)
        .set({ leaseBeat: sql`${jobs.leaseBeat} + 1` })
        .where(and(eq(jobs.id, lease.jobId), eq(jobs.leaseToken, lease.token)))
        .run();
      return changes > 0;
    },

    async giveBack(lease, as) {
      const counted =
        as.kind === 'retry'
          ? { attempts: lease.attempt, dueAtMs: now() + Math.min(as.delayMs, LONGEST_DELAY_MS), lastReason: as.reason }
          : {};
      db.transaction((tx) => {
        const { changes } = tx
          .update(jobs)
          .set({ ...release, ...counted })
          .where(and(eq(jobs.id, lease.jobId), eq(jobs.leaseToken, lease.token)))
          .run();
        if (changes === 0) return;
        backToQueued(tx, lease.mediaId);
        bumpVersion(tx, 'media');
      }, WRITE);
    },

    async held() {
      return db
        .select()
        .from(jobs)
        .where(sql`${jobs.leaseToken} IS NOT NULL`)
        .all()
        .map((job) => ({
          token: job.leaseToken ?? '',
          worker: job.leaseWorker ?? '',
          mediaId: job.mediaId,
          beat: job.leaseBeat,
        }));
    },

    async reclaim(token, { counted }) {
      return db.transaction((tx) => {
        const job = tx.select().from(jobs).where(eq(jobs.leaseToken, token)).get();
        if (!job) return false;
        const lostLeases = job.lostLeases + (counted ? 1 : 0);
        if (lostLeases >= MAX_LOST_LEASES) {
          failMedium(tx, {
            jobId: job.id,
            mediaId: job.mediaId,
            attempt: job.attempts + 1,
            failure: LOST_LEASES_FAILURE,
            nowMs: now(),
          });
        } else {
          tx.update(jobs)
            .set({ ...release, lostLeases })
            .where(eq(jobs.id, job.id))
            .run();
          backToQueued(tx, job.mediaId);
        }
        bumpVersion(tx, 'media');
        return true;
      }, WRITE);
    },

    async counts() {
      const { queued, running } = db
        .select({
          queued: sql<number>`count(*) FILTER (WHERE ${jobs.leaseToken} IS NULL)`,
          running: sql<number>`count(*) FILTER (WHERE ${jobs.leaseToken} IS NOT NULL)`,
        })
        .from(jobs)
        .get() ?? { queued: 0, running: 0 };
      const oldest = db
        .select({ dueAtMs: sql<number | null>`min(${jobs.dueAtMs})` })
        .from(jobs)
        .where(and(isNull(jobs.leaseToken), lte(jobs.dueAtMs, now())))
        .get()?.dueAtMs;
      return { queued, running, oldestDueMs: oldest == null ? 0 : Math.max(0, now() - oldest) };
    },

    async workerBeat(worker) {
      db.insert(workers)
        .values({ ...worker, beat: 1 })
        .onConflictDoUpdate({ target: workers.id, set: { ...worker, beat: sql`${workers.beat} + 1` } })
        .run();
    },

    async workerGone(id) {
      db.delete(workers).where(eq(workers.id, id)).run();
    },

    async workers() {
      return db.select().from(workers).all();
    },
  };
}

function backToQueued(db: Pick<SqliteDatabase, 'update'>, mediaId: string): void {
  db.update(media)
    .set({ status: 'queued' })
    .where(and(eq(media.id, mediaId), eq(media.status, 'processing')))
    .run();
}
