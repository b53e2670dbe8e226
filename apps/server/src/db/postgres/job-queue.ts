import type { JobState } from '@mds/contract';
import { and, asc, count, eq, gt, inArray, isNotNull, isNull, lt, lte, min, or, sql } from 'drizzle-orm';
import { ulid } from 'ulid';
import { type JobQueue, type JobSelection, type Lease, MAX_LOST_LEASES } from '../job-queue.ts';
import {
  jobRecordOf,
  LONGEST_JOB_DELAY_MS,
  LOST_LEASES_FAILURE,
  LOST_REASON,
  STOPPED_REASON,
  standingOf,
} from '../job-rules.ts';
import { attemptsOf, beginAttempt, endAttempt } from './attempts.ts';
import type { PostgresDatabase } from './database.ts';
import { enqueue } from './enqueue.ts';
import { failMedia } from './fail-media.ts';
import { lockHeldJob } from './held-job.ts';
import { isAnyOf } from './is-any-of.ts';
import { jobs, media, processingAttempts, projects } from './schema.ts';
import type { Transaction, Transactions } from './transaction.ts';
import { createWorkerRows } from './worker-rows.ts';

/** {@link JobQueue} in the same database as the media. @param parts.now the wall clock, milliseconds since the epoch */
export function createJobQueue(
  db: PostgresDatabase,
  { transactions, now = Date.now }: { transactions: Transactions; now?: () => number },
): JobQueue {
  const isDue = () => sql`(${jobs.dueAtMs} <= ${now()} OR ${jobs.dueAtMs} > ${now() + LONGEST_JOB_DELAY_MS})`;
  const release = { leaseToken: null, leaseWorker: null, progress: null };
  const underLease = (lease: Lease) => and(eq(jobs.id, lease.jobId), eq(jobs.leaseToken, lease.token));
  /** Jobs, each with the latest run of its media object's. */
  const standings = () =>
    db.select(STANDING).from(jobs).leftJoin(processingAttempts, eq(processingAttempts.id, latestRun));
  const anyDue = db
    .select({ id: jobs.id })
    .from(jobs)
    .where(
      and(
        isNull(jobs.leaseToken),
        or(lte(jobs.dueAtMs, sql.placeholder('now')), sql`${jobs.dueAtMs} > ${sql.placeholder('far')}`),
      ),
    )
    .limit(1)
    .prepare('any_job_due');
  // Asked several times a second as long as somebody listens to events: planning it anew took five times as long as running it.
  const toldOf = db
    .select({ mediaId: jobs.mediaId, projectId: media.projectId, progress: jobs.progress })
    .from(jobs)
    .innerJoin(media, eq(media.id, jobs.mediaId))
    .where(and(isNotNull(jobs.leaseToken), isNotNull(jobs.progress)))
    .prepare('jobs_told_of');

  return {
    async claim(worker) {
      const at = now();
      // Workers ask all the time, and most of the time there is nothing: a look costs no transaction.
      if ((await anyDue.execute({ now: at, far: at + LONGEST_JOB_DELAY_MS })).length === 0) return null;
      // A claim that a server's death undoes is a lease that does not stand: its worker finds out, and the job is claimed again.
      return transactions.writeSoon(async (tx) => {
        // Rows that others have locked are passed over: those of other claims, and media that are being deleted.
        const found = await tx.db.execute<{ id: string; media_id: string; attempts: number }>(
          sql`SELECT ${jobs.id}, ${jobs.mediaId}, ${jobs.attempts} FROM ${jobs}
              JOIN ${media} ON ${media.id} = ${jobs.mediaId}
              WHERE ${jobs.leaseToken} IS NULL AND ${isDue()}
              ORDER BY ${jobs.priority}, ${jobs.id} LIMIT 1
              FOR UPDATE OF jobs SKIP LOCKED FOR KEY SHARE OF media SKIP LOCKED`,
        );
        const [due] = found.rows;
        if (!due) return null;
        const token = ulid(now());
        const lease = { jobId: Number(due.id), mediaId: due.media_id, token, attempt: due.attempts + 1 };
        await tx.db
          .update(jobs)
          .set({ leaseToken: token, leaseWorker: worker, leaseBeat: 0, leaseSilentMs: 0, progress: null })
          .where(eq(jobs.id, lease.jobId));
        await beginAttempt(tx, { ...lease, worker }, now());
        return lease;
      });
    },

    claimJob: (jobId, { worker, token }) =>
      transactions.writeSoon(async (tx) => {
        // The media object first, as whoever deletes it and its job does.
        const ofJob = db.select({ id: jobs.mediaId }).from(jobs).where(eq(jobs.id, jobId));
        await tx.db.select({ id: media.id }).from(media).where(inArray(media.id, ofJob)).for('key share');
        const [free] = await tx.db
          .update(jobs)
          .set({ leaseToken: token, leaseWorker: worker, leaseBeat: 0, leaseSilentMs: 0, progress: null })
          .where(and(eq(jobs.id, jobId), isNull(jobs.leaseToken)))
          .returning({ mediaId: jobs.mediaId, attempts: jobs.attempts });
        if (!free) return null;
        const lease = { jobId, mediaId: free.mediaId, token, attempt: free.attempts + 1 };
        await beginAttempt(tx, { ...lease, worker }, now());
        return lease;
      }),

    async records(selection) {
      const rows = db.select().from(jobs).where(selected(selection)).orderBy(asc(jobs.id));
      const found = await ('limit' in selection ? rows.limit(selection.limit) : rows);
      return found.map((job) => jobRecordOf(job, now()));
    },

    async renew(lease) {
      const beat = { leaseBeat: sql`${jobs.leaseBeat} + 1`, leaseSilentMs: 0 };
      return (await db.update(jobs).set(beat).where(underLease(lease))).rowCount === 1;
    },

    async stands(lease) {
      return (await db.select({ id: jobs.id }).from(jobs).where(underLease(lease))).length > 0;
    },

    async progress(lease, fraction) {
      const progress = Math.min(1, Math.max(0, fraction));
      return (await db.update(jobs).set({ progress }).where(underLease(lease))).rowCount === 1;
    },

    async giveBack(lease, as, report = null) {
      const retried = as.kind === 'retry' ? as : null;
      const counted = retried && {
        attempts: lease.attempt,
        dueAtMs: now() + Math.min(retried.delayMs, LONGEST_JOB_DELAY_MS),
      };
      const lastReason = as.failure?.message ?? STOPPED_REASON;
      await transactions.write(async (tx) => {
        if ((await lockHeldJob(tx.db, lease)) === null) return;
        await tx.db
          .update(jobs)
          .set({ ...release, ...counted, lastReason })
          .where(eq(jobs.id, lease.jobId));
        await endAttempt(tx, lease.token, {
          outcome: retried ? 'retried' : 'released',
          endedAtMs: now(),
          failure: as.failure ?? null,
          report,
        });
        await backToQueued(tx, [lease.mediaId]);
      });
    },

    async held() {
      const rows = await db.select().from(jobs).where(isNotNull(jobs.leaseToken));
      return rows.map((job) => ({
        token: job.leaseToken ?? '',
        worker: job.leaseWorker ?? '',
        mediaId: job.mediaId,
        beat: job.leaseBeat,
        silentMs: job.leaseSilentMs,
      }));
    },

    async noteSilence({ token, beat, silentMs: before }, silentMs) {
      const asSeen = and(eq(jobs.leaseToken, token), eq(jobs.leaseBeat, beat), eq(jobs.leaseSilentMs, before));
      return (await db.update(jobs).set({ leaseSilentMs: silentMs }).where(asSeen)).rowCount === 1;
    },

    reclaim: (token, { counted }) =>
      transactions.write(async (tx) => {
        const [held] = await tx.db.select({ mediaId: jobs.mediaId }).from(jobs).where(eq(jobs.leaseToken, token));
        const job = held ? await lockHeldJob(tx.db, { mediaId: held.mediaId, token }) : null;
        if (job === null) return false;
        const { id, mediaId } = job;
        const lostLeases = job.lostLeases + (counted ? 1 : 0);
        await endAttempt(tx, token, { outcome: 'lost', endedAtMs: null });
        if (lostLeases >= MAX_LOST_LEASES) {
          const ending = { jobId: id, mediaId, attempt: job.attempts + 1, failure: LOST_LEASES_FAILURE, nowMs: now() };
          await failMedia(tx, ending);
        } else {
          await tx.db
            .update(jobs)
            .set({ ...release, lostLeases, lastReason: LOST_REASON })
            .where(eq(jobs.id, id));
          await backToQueued(tx, [mediaId]);
        }
        tx.bump('media');
        return true;
      }),

    async counts() {
      const waiting = isNull(jobs.leaseToken);
      const [row] = await db
        .select({
          queued: sql`count(*) FILTER (WHERE ${waiting})`.mapWith(Number),
          running: sql`count(*) FILTER (WHERE NOT ${waiting})`.mapWith(Number),
        })
        .from(jobs);
      const [oldest] = await db
        .select({ dueAtMs: min(jobs.dueAtMs) })
        .from(jobs)
        .where(and(waiting, lte(jobs.dueAtMs, now())));
      const { queued, running } = row ?? { queued: 0, running: 0 };
      const dueAtMs = oldest?.dueAtMs ?? null;
      return { queued, running, oldestDueMs: dueAtMs === null ? 0 : Math.max(0, now() - dueAtMs) };
    },

    async standings(mediaIds) {
      const rows = await standings().where(isAnyOf(jobs.mediaId, mediaIds));
      return rows.map(({ job, latest }) => standingOf(job, latest, now()));
    },

    async page({ projectId, limit, afterId, state }) {
      const after = afterId === null ? undefined : gt(jobs.id, afterId);
      const rows = await standings()
        .innerJoin(media, eq(media.id, jobs.mediaId))
        .where(and(eq(media.projectId, projectId), after, inState(state)))
        .orderBy(asc(jobs.id))
        .limit(limit);
      return rows.map(({ job, latest }) => standingOf(job, latest, now()));
    },

    async running() {
      const rows = await db
        .select({ ...STANDING, projectId: media.projectId })
        .from(jobs)
        .innerJoin(media, eq(media.id, jobs.mediaId))
        .leftJoin(processingAttempts, eq(processingAttempts.id, latestRun))
        .where(isNotNull(jobs.leaseToken))
        .orderBy(asc(jobs.id));
      return rows.map(({ job, latest, projectId }) => ({ ...standingOf(job, latest, now()), projectId }));
    },

    async ahead(mediaId) {
      const [own] = await db
        .select()
        .from(jobs)
        .where(and(eq(jobs.mediaId, mediaId), isNull(jobs.leaseToken)));
      if (!own) return null;
      const before = or(lt(jobs.priority, own.priority), and(eq(jobs.priority, own.priority), lt(jobs.id, own.id)));
      const [row] = await db
        .select({ n: count() })
        .from(jobs)
        .where(and(isNull(jobs.leaseToken), isDue(), before));
      return row?.n ?? 0;
    },

    async underWay() {
      const rows = await toldOf.execute();
      return rows.map(({ progress, ...job }) => ({ ...job, progress: progress ?? 0 }));
    },

    attempts: (mediaId) => attemptsOf(db, mediaId),

    adoptStranded: () =>
      transactions.write(async (tx) => {
        const mediaIds: string[] = [];
        // By project, as the index is.
        for (const { id: projectId } of await tx.db.select({ id: projects.id }).from(projects).orderBy(projects.id)) {
          const isUnfinished = and(eq(media.projectId, projectId), inArray(media.status, ['queued', 'processing']));
          const stranded = await tx.db
            .select({ id: media.id })
            .from(media)
            .leftJoin(jobs, eq(jobs.mediaId, media.id))
            .where(and(isUnfinished, isNull(jobs.id)))
            // Nodes that start together look for the same.
            .for('no key update', { of: media, skipLocked: true });
          mediaIds.push(...stranded.map(({ id }) => id));
        }
        await enqueue(tx, { mediaIds, nowMs: now() });
        await backToQueued(tx, mediaIds);
        return mediaIds.length;
      }),

    ...createWorkerRows(db),
  };
}

const STANDING = {
  job: jobs,
  latest: { attempt: processingAttempts.attempt, startedAtMs: processingAttempts.startedAtMs },
};

/** Id of the latest run of a job's media object; null where there was none. */
const latestRun = sql`(SELECT max(${processingAttempts.id}) FROM ${processingAttempts} WHERE ${processingAttempts.mediaId} = ${jobs.mediaId})`;

function inState(state: JobState | undefined) {
  if (state === undefined) return undefined;
  return state === 'queued' ? isNull(jobs.leaseToken) : isNotNull(jobs.leaseToken);
}

function selected(selection: JobSelection) {
  if ('mediaIds' in selection) return isAnyOf(jobs.mediaId, selection.mediaIds);
  if ('jobIds' in selection) return isAnyOf(jobs.id, selection.jobIds);
  return gt(jobs.id, selection.afterId);
}

async function backToQueued(tx: Transaction, mediaIds: readonly string[]): Promise<void> {
  if (mediaIds.length === 0) return;
  await tx.db
    .update(media)
    .set({ status: 'queued' })
    .where(and(isAnyOf(media.id, mediaIds), eq(media.status, 'processing')));
  tx.bump('media');
}
