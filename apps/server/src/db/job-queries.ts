import type { JobState } from '@mds/contract';
import { and, asc, count, eq, gt, isNotNull, isNull, lt, lte, min, or, sql } from 'drizzle-orm';
import type { Dialect } from './dialect.ts';
import type { JobQueue, JobSelection } from './job-queue.ts';
import { jobRecordOf, jobViewOf, LONGEST_JOB_DELAY_MS } from './job-rules.ts';
import type { JobParts } from './job-writes.ts';

/** Creates the part of {@link JobQueue} that only reads jobs. */
export function createJobQueries({
  dialect,
  now,
}: Pick<JobParts, 'dialect' | 'now'>): Pick<
  JobQueue,
  'records' | 'counts' | 'findJobViews' | 'page' | 'running' | 'ahead' | 'underWay'
> {
  const { tables, read, prepare, isAnyOf, unindexed } = dialect;
  const { jobs, media, processingAttempts: attempts } = tables;
  const isWaiting = isNull(jobs.leaseToken);
  // SQLite's index of leases serves this comparison, and not `IS NOT NULL`, which would go through all that waits.
  const isHeld = gt(jobs.leaseToken, '');
  const view = { job: jobs, latest: { attempt: attempts.attempt, startedAtMs: attempts.startedAtMs } };
  /** Joins a job to the latest run of its media object's jobs. */
  const isLatestRun = sql`${attempts.id} = (SELECT max(${attempts.id}) FROM ${attempts} WHERE ${attempts.mediaId} = ${jobs.mediaId})`;
  const selectViews = () => read.select(view).from(jobs).leftJoin(attempts, isLatestRun);

  const selected = (selection: JobSelection) => {
    if ('mediaIds' in selection) return isAnyOf(jobs.mediaId, selection.mediaIds);
    if ('jobIds' in selection) return isAnyOf(jobs.id, selection.jobIds);
    return gt(jobs.id, selection.afterId);
  };
  // Nearly all jobs are queued: by the index of leases, all of them would be sorted by id for every page.
  const inState = (state: JobState | undefined) => {
    if (state === undefined) return undefined;
    return state === 'queued' ? isNull(unindexed(jobs.leaseToken)) : isNotNull(jobs.leaseToken);
  };

  // Runs several times a second while a client listens to events. PostgreSQL took five times as long to plan it as to
  // run it.
  const underWay = prepare('jobs_under_way', (db) =>
    db
      .select({ mediaId: jobs.mediaId, projectId: media.projectId, progress: jobs.progress })
      .from(jobs)
      .innerJoin(media, eq(media.id, jobs.mediaId))
      .where(and(isHeld, isNotNull(jobs.progress))),
  );

  return {
    async records(selection) {
      const rows = read.select().from(jobs).where(selected(selection)).orderBy(asc(jobs.id));
      const found = await ('limit' in selection ? rows.limit(selection.limit) : rows);
      return found.map((job) => jobRecordOf(job, now()));
    },

    async counts() {
      const [row] = await read
        .select({
          queued: sql`count(*) FILTER (WHERE ${isWaiting})`.mapWith(Number),
          running: sql`count(*) FILTER (WHERE NOT ${isWaiting})`.mapWith(Number),
        })
        .from(jobs);
      const due = and(isWaiting, lte(jobs.dueAtMs, now()));
      const [oldest] = await read
        .select({ dueAtMs: min(jobs.dueAtMs) })
        .from(jobs)
        .where(due);
      const { queued, running } = row ?? { queued: 0, running: 0 };
      const dueAtMs = oldest?.dueAtMs ?? null;
      return { queued, running, oldestDueMs: dueAtMs === null ? 0 : Math.max(0, now() - dueAtMs) };
    },

    async findJobViews(mediaIds) {
      const rows = await selectViews().where(isAnyOf(jobs.mediaId, mediaIds));
      return rows.map(({ job, latest }) => jobViewOf(job, latest, now()));
    },

    async page({ projectId, limit, afterId, state }) {
      const after = afterId === null ? undefined : gt(jobs.id, afterId);
      const rows = await selectViews()
        .innerJoin(media, eq(media.id, jobs.mediaId))
        // SQLite might begin with all media of the project, and there may be millions of those.
        .where(and(eq(unindexed(media.projectId), projectId), after, inState(state)))
        .orderBy(asc(jobs.id))
        .limit(limit);
      return rows.map(({ job, latest }) => jobViewOf(job, latest, now()));
    },

    async running() {
      const rows = await read
        .select({ ...view, projectId: media.projectId })
        .from(jobs)
        .innerJoin(media, eq(media.id, jobs.mediaId))
        .leftJoin(attempts, isLatestRun)
        .where(isHeld)
        // By the index of ids, all that waits would be gone through.
        .orderBy(unindexed(jobs.id));
      return rows.map(({ job, latest, projectId }) => ({ ...jobViewOf(job, latest, now()), projectId }));
    },

    async ahead(mediaId) {
      const [own] = await read
        .select()
        .from(jobs)
        .where(and(eq(jobs.mediaId, mediaId), isWaiting));
      if (!own) return null;
      const at = now();
      const isDue = or(lte(jobs.dueAtMs, at), gt(jobs.dueAtMs, at + LONGEST_JOB_DELAY_MS));
      const before = or(lt(jobs.priority, own.priority), and(eq(jobs.priority, own.priority), lt(jobs.id, own.id)));
      const [row] = await read
        .select({ n: count() })
        .from(jobs)
        .where(and(isWaiting, isDue, before));
      return row?.n ?? 0;
    },

    underWay: async () => (await underWay({})).map(({ progress, ...job }) => ({ ...job, progress: progress ?? 0 })),
  };
}

/** Creates the part of {@link JobQueue} about workers that have announced themselves. */
export function createWorkerRows({
  tables: { workers },
  read,
  change,
}: Dialect): Pick<JobQueue, 'announceWorker' | 'signOffWorker' | 'workers'> {
  return {
    async announceWorker(worker) {
      const set = { ...worker, beat: sql`${workers.beat} + 1` };
      const announced = { ...worker, beat: 1 };
      await change((db) => db.insert(workers).values(announced).onConflictDoUpdate({ target: workers.id, set }));
    },

    async signOffWorker(id) {
      await change((db) => db.delete(workers).where(eq(workers.id, id)));
    },

    workers: async () => read.select().from(workers).orderBy(asc(workers.id)),
  };
}
