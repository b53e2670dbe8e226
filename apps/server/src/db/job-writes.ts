import { and, asc, eq, gt, inArray, isNull, lte, or, sql } from 'drizzle-orm';
import { ulid } from 'ulid';
import { changedRows, type Dialect, type Transaction } from './dialect.ts';
import { type JobQueue, type Lease, MAX_LOST_LEASES } from './job-queue.ts';
import { LONGEST_JOB_DELAY_MS, LOST_LEASES_FAILURE, LOST_REASON, STOPPED_REASON } from './job-rules.ts';
import type { MediaJobs } from './media-jobs.ts';

/** The parts of the job repositories. */
export interface JobParts {
  dialect: Dialect;
  mediaJobs: MediaJobs;
  /** The wall clock, milliseconds since the epoch. */
  now: () => number;
}

const $ = sql.placeholder;
const RELEASED = { leaseToken: null, leaseWorker: null, progress: null };

/** Creates the part of {@link JobQueue} that gives jobs to workers. */
export function createJobClaims({ dialect, mediaJobs, now }: JobParts): Pick<JobQueue, 'claim' | 'claimJob'> {
  const { tables, prepare, writeSoon, lockRows } = dialect;
  const { jobs, media } = tables;
  const isFree = isNull(jobs.leaseToken);
  const anyDue = prepare('any_job_due', (db) => {
    const isDue = or(lte(jobs.dueAtMs, $('now')), sql`${jobs.dueAtMs} > ${$('far')}`);
    return db.select({ id: jobs.id }).from(jobs).where(and(isFree, isDue)).limit(1);
  });

  /** Gives a free job to a worker, and records that a run of it begins. */
  const lend = async (
    tx: Pick<Transaction, 'db'>,
    jobId: number,
    { worker, token }: { worker: string; token: string },
  ): Promise<Lease | null> => {
    const leased = { leaseToken: token, leaseWorker: worker, leaseBeat: 0, leaseSilentMs: 0, progress: null };
    const [job] = await tx.db
      .update(jobs)
      .set(leased)
      .where(and(eq(jobs.id, jobId), isFree))
      .returning({ mediaId: jobs.mediaId, attempts: jobs.attempts });
    if (!job) return null;
    const lease = { jobId, mediaId: job.mediaId, token, attempt: job.attempts + 1 };
    await mediaJobs.beginAttempt(tx, { ...lease, worker }, now());
    return lease;
  };

  // If the machine of the database fails, a claim may be lost. Its worker detects the lost lease, and the job is
  // claimed again.
  return {
    async claim(worker) {
      const at = now();
      const far = at + LONGEST_JOB_DELAY_MS;
      // Workers ask all the time, and most of the time there is nothing. A look costs no transaction.
      if ((await anyDue({ now: at, far })).length === 0) return null;
      return writeSoon(async (tx) => {
        const mostUrgent = tx.db
          .select({ id: jobs.id })
          .from(jobs)
          .innerJoin(media, eq(media.id, jobs.mediaId))
          .where(and(isFree, or(lte(jobs.dueAtMs, at), gt(jobs.dueAtMs, far))))
          .orderBy(asc(jobs.priority), asc(jobs.id))
          .limit(1);
        // Passes over jobs that others claim, and those of media that are being deleted.
        const [due] = await lockRows(mostUrgent, { strength: 'update', of: jobs, skipLocked: true, keyShareOf: media });
        return due ? lend(tx, due.id, { worker, token: ulid(now()) }) : null;
      });
    },

    claimJob: (jobId, as) =>
      writeSoon(async (tx) => {
        // Locks the media object first, in the order of a deletion.
        const ofJob = tx.db.select({ id: jobs.mediaId }).from(jobs).where(eq(jobs.id, jobId));
        const object = tx.db.select({ id: media.id }).from(media).where(inArray(media.id, ofJob));
        await lockRows(object, { strength: 'key share' });
        return lend(tx, jobId, as);
      }),
  };
}

/** Creates the part of {@link JobQueue} that keeps leases, ends them, and finds media that lost their job. */
export function createJobLeases({
  dialect,
  mediaJobs,
  now,
}: JobParts): Pick<
  JobQueue,
  'renew' | 'progress' | 'release' | 'held' | 'isHeld' | 'noteSilence' | 'reclaim' | 'adoptStranded'
> {
  const { tables, read, change, write, lockRows, isAnyOf } = dialect;
  const { jobs, media, projects } = tables;
  const underLease = (lease: Lease) => and(eq(jobs.id, lease.jobId), eq(jobs.leaseToken, lease.token));

  const backToQueued = async ({ db, bump }: Transaction, mediaIds: readonly string[]): Promise<void> => {
    if (mediaIds.length === 0) return;
    const inProcess = and(isAnyOf(media.id, mediaIds), eq(media.status, 'processing'));
    await db.update(media).set({ status: 'queued' }).where(inProcess);
    bump('media');
  };

  return {
    async renew(lease) {
      const beat = { leaseBeat: sql`${jobs.leaseBeat} + 1`, leaseSilentMs: 0 };
      return changedRows(await change((db) => db.update(jobs).set(beat).where(underLease(lease)))) === 1;
    },

    async progress(lease, fraction) {
      const progress = Math.min(1, Math.max(0, fraction));
      return changedRows(await change((db) => db.update(jobs).set({ progress }).where(underLease(lease)))) === 1;
    },

    async release(lease, as, report = null) {
      const retried = as.kind === 'retry' ? as : null;
      const counted = retried && {
        attempts: lease.attempt,
        dueAtMs: now() + Math.min(retried.delayMs, LONGEST_JOB_DELAY_MS),
      };
      const failure = as.failure ?? null;
      const given = { ...RELEASED, ...counted, lastReason: failure?.message ?? STOPPED_REASON };
      await write(async (tx) => {
        if ((await mediaJobs.lockHeld(tx, lease)) === null) return;
        await tx.db.update(jobs).set(given).where(eq(jobs.id, lease.jobId));
        const outcome = retried ? 'retried' : 'released';
        await mediaJobs.endAttempt(tx, lease.token, { outcome, endedAtMs: now(), failure, report });
        await backToQueued(tx, [lease.mediaId]);
      });
    },

    async held() {
      // SQLite's index of leases serves this comparison, and not `IS NOT NULL`, which would go through all that waits.
      const rows = await read.select().from(jobs).where(gt(jobs.leaseToken, ''));
      return rows.map((job) => ({
        token: job.leaseToken ?? '',
        worker: job.leaseWorker ?? '',
        mediaId: job.mediaId,
        beat: job.leaseBeat,
        silentMs: job.leaseSilentMs,
      }));
    },

    isHeld: async (lease) => (await read.select({ id: jobs.id }).from(jobs).where(underLease(lease))).length > 0,

    async noteSilence({ token, beat, silentMs: before }, silentMs) {
      const asSeen = and(eq(jobs.leaseToken, token), eq(jobs.leaseBeat, beat), eq(jobs.leaseSilentMs, before));
      return changedRows(await change((db) => db.update(jobs).set({ leaseSilentMs: silentMs }).where(asSeen))) === 1;
    },

    reclaim: (token, { counted }) =>
      write(async (tx) => {
        const [held] = await tx.db.select({ mediaId: jobs.mediaId }).from(jobs).where(eq(jobs.leaseToken, token));
        const job = held ? await mediaJobs.lockHeld(tx, { mediaId: held.mediaId, token }) : null;
        if (job === null) return false;
        const { id: jobId, mediaId } = job;
        const lostLeases = job.lostLeases + (counted ? 1 : 0);
        await mediaJobs.endAttempt(tx, token, { outcome: 'lost', endedAtMs: null });
        if (lostLeases >= MAX_LOST_LEASES) {
          const attempt = job.attempts + 1;
          await mediaJobs.fail(tx, { jobId, mediaId, attempt, failure: LOST_LEASES_FAILURE, nowMs: now() });
        } else {
          const lost = { ...RELEASED, lostLeases, lastReason: LOST_REASON };
          await tx.db.update(jobs).set(lost).where(eq(jobs.id, jobId));
          await backToQueued(tx, [mediaId]);
        }
        tx.bump('media');
        return true;
      }),

    adoptStranded: () =>
      write(async (tx) => {
        const mediaIds: string[] = [];
        // By project, as the index is.
        for (const { id: projectId } of await tx.db.select({ id: projects.id }).from(projects).orderBy(projects.id)) {
          const isUnfinished = and(eq(media.projectId, projectId), inArray(media.status, ['queued', 'processing']));
          const stranded = tx.db
            .select({ id: media.id })
            .from(media)
            .leftJoin(jobs, eq(jobs.mediaId, media.id))
            .where(and(isUnfinished, isNull(jobs.id)));
          // Nodes that start together look for the same.
          const locks = { strength: 'no key update', of: media, skipLocked: true } as const;
          mediaIds.push(...(await lockRows(stranded, locks)).map(({ id }) => id));
        }
        await mediaJobs.enqueue(tx, { mediaIds, nowMs: now() });
        await backToQueued(tx, mediaIds);
        return mediaIds.length;
      }),
  };
}
