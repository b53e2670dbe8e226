import type { JobState } from '@mds/contract';
import { and, asc, eq, gt, inArray, isNotNull, isNull, lt, lte, or, sql } from 'drizzle-orm';
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
import { bumpVersion, type SqliteDatabase } from './database.ts';
import { enqueue } from './enqueue.ts';
import type { EventWriter } from './event-repository.ts';
import { failMedia } from './fail-media.ts';
import { isAnyOf } from './is-any-of.ts';
import { jobs, media, processingAttempts, projects } from './schema.ts';
import { type Transaction, WRITE } from './transaction.ts';
import { createWorkerRows } from './worker-rows.ts';

/** {@link JobQueue} in the same SQLite file as the media. @param parts.now the wall clock, milliseconds since the epoch */
export function createJobQueue(db: SqliteDatabase, parts: { events: EventWriter; now?: () => number }): JobQueue {
  const { events, now = Date.now } = parts;
  const isDue = () => sql`(${jobs.dueAtMs} <= ${now()} OR ${jobs.dueAtMs} > ${now() + LONGEST_JOB_DELAY_MS})`;
  const release = { leaseToken: null, leaseWorker: null, progress: null };
  const underLease = (lease: { jobId: number; token: string }) =>
    and(eq(jobs.id, lease.jobId), eq(jobs.leaseToken, lease.token));
  /** Jobs, each with the latest run of its media object's. */
  const standings = () =>
    db.select(STANDING).from(jobs).leftJoin(processingAttempts, eq(processingAttempts.id, latestRun));
  /** Gives a free job to a worker, and notes that a run of it begins. */
  const lend = (
    tx: Transaction,
    job: { id: number; mediaId: string; attempts: number },
    { worker, token }: { worker: string; token: string },
  ): Lease => {
    tx.update(jobs)
      .set({ leaseToken: token, leaseWorker: worker, leaseBeat: 0, leaseSilentMs: 0, progress: null })
      .where(eq(jobs.id, job.id))
      .run();
    const lease = { jobId: job.id, mediaId: job.mediaId, token, attempt: job.attempts + 1 };
    beginAttempt(tx, { ...lease, worker }, now());
    return lease;
  };

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
        return due ? lend(tx, due, { worker, token: ulid(now()) }) : null;
      }, WRITE);
    },

    async claimJob(jobId, as) {
      return db.transaction((tx) => {
        const free = tx
          .select()
          .from(jobs)
          .where(and(eq(jobs.id, jobId), isNull(jobs.leaseToken)))
          .get();
        return free ? lend(tx, free, as) : null;
      }, WRITE);
    },

    async records(selection) {
      const rows = db.select().from(jobs).where(selected(selection)).orderBy(asc(jobs.id));
      return ('limit' in selection ? rows.limit(selection.limit) : rows).all().map((job) => jobRecordOf(job, now()));
    },

    async renew(lease) {
      const { changes } = db
        .update(jobs)
        .set({ leaseBeat: sql`${jobs.leaseBeat} + 1`, leaseSilentMs: 0 })
        .where(underLease(lease))
        .run();
      return changes > 0;
    },

    async stands(lease) {
      return db.select({ id: jobs.id }).from(jobs).where(underLease(lease)).get() !== undefined;
    },

    async progress(lease, fraction) {
      const progress = Math.min(1, Math.max(0, fraction));
      return db.update(jobs).set({ progress }).where(underLease(lease)).run().changes > 0;
    },

    async giveBack(lease, as, report = null) {
      const retried = as.kind === 'retry' ? as : null;
      const counted = retried && {
        attempts: lease.attempt,
        dueAtMs: now() + Math.min(retried.delayMs, LONGEST_JOB_DELAY_MS),
      };
      const lastReason = as.failure?.message ?? STOPPED_REASON;
      db.transaction((tx) => {
        const { changes } = tx
          .update(jobs)
          .set({ ...release, ...counted, lastReason })
          .where(underLease(lease))
          .run();
        if (changes === 0) return;
        endAttempt(tx, lease.token, {
          outcome: retried ? 'retried' : 'released',
          endedAtMs: now(),
          failure: as.failure ?? null,
          report,
        });
        backToQueued(tx, lease.mediaId);
        bumpVersion(tx, 'media');
      }, WRITE);
    },

    async held() {
      return db
        .select()
        .from(jobs)
        .where(isHeld)
        .all()
        .map((job) => ({
          token: job.leaseToken ?? '',
          worker: job.leaseWorker ?? '',
          mediaId: job.mediaId,
          beat: job.leaseBeat,
          silentMs: job.leaseSilentMs,
        }));
    },

    async noteSilence({ token, beat, silentMs: before }, silentMs) {
      const asSeen = and(eq(jobs.leaseToken, token), eq(jobs.leaseBeat, beat), eq(jobs.leaseSilentMs, before));
      return db.update(jobs).set({ leaseSilentMs: silentMs }).where(asSeen).run().changes > 0;
    },

    async reclaim(token, { counted }) {
      return db.transaction((tx) => {
        const job = tx.select().from(jobs).where(eq(jobs.leaseToken, token)).get();
        if (!job) return false;
        const lostLeases = job.lostLeases + (counted ? 1 : 0);
        endAttempt(tx, token, { outcome: 'lost', endedAtMs: null });
        if (lostLeases >= MAX_LOST_LEASES) {
          failMedia(tx, events, {
            jobId: job.id,
            mediaId: job.mediaId,
            attempt: job.attempts + 1,
            failure: LOST_LEASES_FAILURE,
            nowMs: now(),
          });
        } else {
          tx.update(jobs)
            .set({ ...release, lostLeases, lastReason: LOST_REASON })
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

    async standings(mediaIds) {
      return standings()
        .where(isAnyOf(jobs.mediaId, mediaIds))
        .all()
        .map(({ job, latest }) => standingOf(job, latest, now()));
    },

    async page({ projectId, limit, afterId, state }) {
      // Not a join: it might begin with all media of the project, and there may be millions of those.
      const project = db.select({ id: media.projectId }).from(media).where(eq(media.id, jobs.mediaId));
      const asked = and(
        sql`(${project}) = ${projectId}`,
        afterId === null ? undefined : gt(jobs.id, afterId),
        inState(state),
      );
      const rows = standings().where(asked).orderBy(asc(jobs.id)).limit(limit).all();
      return rows.map(({ job, latest }) => standingOf(job, latest, now()));
    },

    async running() {
      const rows = db
        .select({ ...STANDING, projectId: media.projectId })
        .from(jobs)
        .innerJoin(media, eq(media.id, jobs.mediaId))
        .leftJoin(processingAttempts, eq(processingAttempts.id, latestRun))
        .where(isHeld)
        // By `+` not by their ids, for which all that waits would be gone through.
        .orderBy(sql`+${jobs.id}`)
        .all();
      return rows.map(({ job, latest, projectId }) => ({ ...standingOf(job, latest, now()), projectId }));
    },

    async ahead(mediaId) {
      const own = db
        .select()
        .from(jobs)
        .where(and(eq(jobs.mediaId, mediaId), isNull(jobs.leaseToken)))
        .get();
      if (!own) return null;
      const before = or(lt(jobs.priority, own.priority), and(eq(jobs.priority, own.priority), lt(jobs.id, own.id)));
      return (
        db
          .select({ count: sql<number>`count(*)` })
          .from(jobs)
          .where(and(isNull(jobs.leaseToken), isDue(), before))
          .get()?.count ?? 0
      );
    },

    async underWay() {
      const rows = db
        .select({ mediaId: jobs.mediaId, projectId: media.projectId, progress: jobs.progress })
        .from(jobs)
        .innerJoin(media, eq(media.id, jobs.mediaId))
        .where(and(isHeld, isNotNull(jobs.progress)))
        .all();
      return rows.map(({ progress, ...job }) => ({ ...job, progress: progress ?? 0 }));
    },

    async attempts(mediaId) {
      return attemptsOf(db, mediaId);
    },

    async adoptStranded() {
      return db.transaction((tx) => {
        let adopted = 0;
        for (const project of tx.select({ id: projects.id }).from(projects).all()) {
          const stranded = tx
            .select({ id: media.id })
            .from(media)
            .leftJoin(jobs, eq(jobs.mediaId, media.id))
            .where(
              and(eq(media.projectId, project.id), inArray(media.status, ['queued', 'processing']), isNull(jobs.id)),
            )
            .all();
          for (const { id } of stranded) {
            enqueue(tx, { mediaId: id, nowMs: now() });
            backToQueued(tx, id);
          }
          adopted += stranded.length;
        }
        if (adopted > 0) bumpVersion(tx, 'media');
        return adopted;
      }, WRITE);
    },

    ...createWorkerRows(db),
  };
}

const STANDING = {
  job: jobs,
  latest: { attempt: processingAttempts.attempt, startedAtMs: processingAttempts.startedAtMs },
};

/** By the index of leases, which `IS NOT NULL` makes no use of: all that waits would be gone through, and there may be a million. */
const isHeld = gt(jobs.leaseToken, '');

/** Id of the latest run of a job's media object; null where there was none. */
const latestRun = sql`(SELECT max(${processingAttempts.id}) FROM ${processingAttempts} WHERE ${processingAttempts.mediaId} = ${jobs.mediaId})`;

function inState(state: JobState | undefined) {
  if (state === undefined) return undefined;
  // By `+` no index of it is used: nearly all jobs are queued, and all would be sorted by id for every page of a long queue.
  return state === 'queued' ? sql`+${jobs.leaseToken} IS NULL` : isNotNull(jobs.leaseToken);
}

function selected(selection: JobSelection) {
  if ('mediaIds' in selection) return isAnyOf(jobs.mediaId, selection.mediaIds);
  if ('jobIds' in selection) return isAnyOf(jobs.id, selection.jobIds);
  return gt(jobs.id, selection.afterId);
}

function backToQueued(db: Pick<SqliteDatabase, 'update'>, mediaId: string): void {
  db.update(media)
    .set({ status: 'queued' })
    .where(and(eq(media.id, mediaId), eq(media.status, 'processing')))
    .run();
}
