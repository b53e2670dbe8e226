import type { JobProgress, PostgresConnectionOptions, PostgresQueueBackend, Queue, Worker } from 'bullmq';
import type { Pool } from 'pg';
import type { Logger } from '../../logger.ts';
import type { JobRecord } from '../job-queue.ts';
import type { EngineJob, QueueEngine } from './queue-engine.ts';

/** The schema of the database that BullMQ keeps its tables in. */
export const BULLMQ_SCHEMA = 'bullmq';
/** First number of the advisory lock of whoever compares rows and engine ("MDSJ"); the second one is the queue's. */
const ALONE_KEY = 0x4d44534a;
/** BullMQ looks at a lock's end only where it looks for the stalled, which is not asked of it. */
const LOCK_MS = 24 * 60 * 60 * 1000;
/** Jobs that failed are kept to be looked at, at most so many and so long (seconds). */
const KEPT_DEAD_LETTERS = { count: 1_000, age: 30 * 24 * 60 * 60 };
/** Lines of BullMQ's own event stream, which nobody here reads. */
const KEPT_EVENTS = 1_000;
const MAX_PRIORITY = 2_097_152;

const JOB_NAME = 'process';
const KEPT = {
  // Attempts are counted by the rows.
  attempts: 1,
  removeOnComplete: true,
  removeOnFail: KEPT_DEAD_LETTERS,
  stackTraceLimit: 0,
};

/** Answers of BullMQ that mean: the job is not (any more) active under this token. */
const NOT_OURS = new Set([-1, -2, -3, -6]);

type Backend = PostgresQueueBackend;
type Bull = typeof import('bullmq');
type BullQueue = Queue<JobData, null, string, JobData, null, string, Backend, PostgresConnectionOptions>;
type BullWorker = Worker<JobData, null, string, Backend, JobProgress, PostgresConnectionOptions>;

/** For an operator who looks at the queue; nothing here reads it. */
interface JobData {
  mediaId: string;
}

/** Of BullMQ's table `job`. */
interface JobColumns {
  id: string;
  state: string;
  lock_token: string | null;
  process_at_ms: string | null;
}

export interface BullEngineParts {
  bull: Bull;
  /** Connections whose `search_path` is {@link BULLMQ_SCHEMA}; closed with the engine. */
  pool: Pool;
  /** Of the queue. */
  name: string;
  logger: Logger;
  /** How long a job that is out is locked for whoever looks for BullMQ's stalled jobs. */
  lockMs?: number;
}

/** {@link QueueEngine}: a queue of BullMQ's PostgreSQL backend, whose schema is up to date. */
export function createBullEngine(parts: BullEngineParts): QueueEngine {
  const { bull, pool, name, logger, lockMs = LOCK_MS } = parts;
  const { createPostgresBackend, isPgPool } = bull;
  // BullMQ describes a pool in types of its own, and knows one when it sees it.
  const described: unknown = pool;
  if (!isPgPool(described)) throw new TypeError('BullMQ does not take the pool of the installed pg.');
  const connection = described;
  const queue: BullQueue = new bull.Queue(
    name,
    { connection, streams: { events: { maxLen: KEPT_EVENTS } } },
    createPostgresBackend,
  );
  const onError = ({ message }: Error) =>
    logger.warn({ reason: message }, 'the job engine has trouble with its database');
  queue.on('error', onError);
  /** Only a process that claims is one of the queue's workers. */
  let worker: BullWorker | null = null;
  let closed = false;

  /** Runs something of BullMQ, which never answers once it is closed. */
  const ask = <T>(run: () => Promise<T>): Promise<T> =>
    closed ? Promise.reject(new Error('The job engine is closed.')) : run();

  /** A job by its id, of which BullMQ need not be asked first. */
  const jobOf = (jobId: number) => new bull.Job(queue, JOB_NAME, {}, KEPT, engineId(jobId));

  /** @returns false where the job is not active under this token */
  const unlessLost = async (run: () => Promise<unknown>): Promise<boolean> => {
    try {
      await ask(run);
      return true;
    } catch (error) {
      if (NOT_OURS.has((error as { code?: number }).code ?? 0)) return false;
      throw error;
    }
  };

  const scan = async (where: string, values: unknown[]): Promise<(EngineJob & { id: string })[]> => {
    // BullMQ reads jobs one by one; here only what tells where each stands is wanted, of a thousand at once.
    const columns = 'id, state::text AS state, lock_token, process_at_ms';
    const { rows } = await ask(() =>
      pool.query<JobColumns>(`SELECT ${columns} FROM job WHERE queue = $1 AND ${where}`, [name, ...values]),
    );
    return rows.flatMap((job) => {
      const jobId = jobIdOf(job.id);
      const state = stateOf(job.state);
      const dueInMs = state === 'delayed' ? Math.max(0, Number(job.process_at_ms) - Date.now()) : 0;
      return jobId === null ? [] : [{ id: job.id, jobId, state, token: job.lock_token, dueInMs }];
    });
  };

  return {
    async put(jobs) {
      const entries = jobs.map(entryOf);
      const [only] = entries;
      if (only === undefined) return;
      // Many at once go through a temporary table, which is more work for one than adding it.
      if (entries.length === 1) await ask(() => queue.add(only.name, only.data, only.opts));
      else await ask(() => queue.addBulk(entries));
    },

    async take({ worker: id, token }) {
      worker ??= openWorker(id);
      const taker = worker;
      const job = await ask(() => taker.getNextJob(token, { block: false }));
      if (!job) return null;
      const jobId = jobIdOf(job.id ?? '');
      if (jobId === null) throw new Error(`The queue ${name} holds a job that is not this service's: ${job.id}.`);
      return jobId;
    },

    async putBack({ jobId, token }, delayMs) {
      // It keeps its place in the order. What is due at once is so by anybody's clock: of 1970.
      const from = delayMs > 0 ? Date.now() : 0;
      return unlessLost(() =>
        queue.backend.moveToDelayed(engineId(jobId), from, Math.max(0, delayMs), token, { skipAttempt: true }),
      );
    },

    async remove({ jobId, token }) {
      if (token !== null) {
        if (await unlessLost(() => jobOf(jobId).moveToCompleted(null, token, false))) return;
      }
      await ask(() => queue.remove(engineId(jobId)));
    },

    async bury({ jobId, token }, reason) {
      // PostgreSQL keeps no NUL in a text.
      const error = new Error(reason.replaceAll('\0', '\uFFFD'));
      await unlessLost(() => jobOf(jobId).moveToFailed(error, token, false));
    },

    async hasten(jobId) {
      await unlessLost(() => jobOf(jobId).promote());
    },

    find(jobIds) {
      return scan('id = ANY($2)', [jobIds.map(engineId)]);
    },

    async page(after, limit) {
      const states = "state IN ('waiting', 'delayed', 'active')";
      const jobs = await scan(`${states} AND id > $2 ORDER BY id LIMIT $3`, [after ?? '', limit]);
      return { jobs, next: jobs.length < limit ? null : (jobs.at(-1)?.id ?? null) };
    },

    async alone(work) {
      const client = await pool.connect();
      const keys = [ALONE_KEY, name];
      try {
        const asked = await client.query<{ got: boolean }>(
          'SELECT pg_try_advisory_lock($1, hashtext($2)) AS got',
          keys,
        );
        if (!asked.rows[0]?.got) return null;
        try {
          return await work();
        } finally {
          await client.query('SELECT pg_advisory_unlock($1, hashtext($2))', keys);
        }
      } finally {
        client.release();
      }
    },

    async close() {
      closed = true;
      await worker?.close();
      await queue.close();
      await pool.end();
    },
  };

  /** A worker that takes jobs when it is told to, and looks for nothing by itself. */
  function openWorker(id: string) {
    const options = { connection, name: id, autorun: false, lockDuration: lockMs };
    const opened: BullWorker = new bull.Worker(name, null, options, createPostgresBackend);
    opened.on('error', onError);
    return opened;
  }
}

function entryOf({ jobId, mediaId, priority, dueInMs }: JobRecord) {
  return {
    name: JOB_NAME,
    data: { mediaId },
    opts: {
      ...KEPT,
      jobId: engineId(jobId),
      // BullMQ's 0 is the most urgent, and returns to the end of its line instead of to its head.
      priority: Math.min(Math.max(1, Math.trunc(priority)), MAX_PRIORITY),
      ...(dueInMs > 0 ? { delay: dueInMs } : {}),
    },
  };
}

/** BullMQ takes no number for an id. */
function engineId(jobId: number): string {
  return `job-${jobId}`;
}

function jobIdOf(id: string): number | null {
  const digits = /^job-(\d+)$/.exec(id)?.[1];
  return digits === undefined ? null : Number(digits);
}

function stateOf(state: string): EngineJob['state'] {
  return state === 'waiting' || state === 'delayed' || state === 'active' ? state : 'finished';
}
