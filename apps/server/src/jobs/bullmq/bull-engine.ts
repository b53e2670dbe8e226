import type { BackendFactory, IQueueBackend, JobProgress, Queue, Worker } from 'bullmq';
import type { JobRecord } from '../../db/job-queue.ts';
import { type BullStore, engineId, jobIdOf } from './bull-store.ts';
import type { QueueEngine } from './queue-engine.ts';

/** BullMQ checks the end of locks only when it looks for stalled jobs, which this service does not ask of it. */
const LOCK_MS = 24 * 60 * 60 * 1000;
/** Failed jobs are kept for operators: at most so many, and for so long (in seconds). */
const KEPT_DEAD_LETTERS = { count: 1_000, age: 30 * 24 * 60 * 60 };
/** Lines of BullMQ's own event stream, which the service does not read. */
const KEPT_EVENTS = 1_000;
/** Over Redis only: BullMQ would log remarks on its settings as text, but the log is JSON lines. */
const NO_QUESTIONS = { skipVersionCheck: true };
const MAX_PRIORITY = 2_097_152;

const JOB_NAME = 'process';
const KEPT = {
  // Attempts are counted by the rows.
  attempts: 1,
  removeOnComplete: true,
  removeOnFail: KEPT_DEAD_LETTERS,
  stackTraceLimit: 0,
};

/** Codes of BullMQ for a job that is not active under this token, or no more. */
const NOT_OURS = new Set([-1, -2, -3, -6]);

/** The package; loaded only if it is configured. */
export type Bull = typeof import('bullmq');
type BullQueue<B extends IQueueBackend, C> = Queue<JobData, null, string, JobData, null, string, B, C>;
type BullWorker<B extends IQueueBackend, C> = Worker<JobData, null, string, B, JobProgress, C>;

/** For operators who look at the queue; the service does not read it. */
interface JobData {
  mediaId: string;
}

export interface BullEngineParts<B extends IQueueBackend, C> {
  bull: Bull;
  /** The name of the queue. */
  name: string;
  /** Storage of BullMQ's jobs; closed with the engine. */
  store: BullStore<B>;
  /** In the form that this backend of BullMQ takes. */
  connection: C;
  createBackend: BackendFactory<B, C>;
  /** How long an active job is locked for processes that look for BullMQ's stalled jobs. */
  lockMs?: number;
}

/** {@link QueueEngine}: a queue of BullMQ, over whichever of its backends. */
export function createBullEngine<B extends IQueueBackend, C>(parts: BullEngineParts<B, C>): QueueEngine {
  const { bull, name, store, connection, createBackend, lockMs = LOCK_MS } = parts;
  const queue: BullQueue<B, C> = new bull.Queue(
    name,
    { connection, streams: { events: { maxLen: KEPT_EVENTS } }, ...NO_QUESTIONS },
    createBackend,
  );
  queue.on('error', store.onError);
  /** Made at the first claim: only processes that claim are workers of the queue. */
  let worker: BullWorker<B, C> | null = null;
  let closed = false;

  /** Calls BullMQ, which never answers after it was closed. */
  const ask = <T>(run: () => Promise<T>): Promise<T> =>
    closed ? Promise.reject(new Error('The job engine is closed.')) : store.ask(run);

  /** A job by its id, without asking BullMQ for it first. */
  const jobOf = (jobId: number) => new bull.Job(queue, JOB_NAME, {}, KEPT, engineId(jobId));

  /** @returns false if the job is not active under this token */
  const unlessLost = async (run: () => Promise<unknown>): Promise<boolean> => {
    try {
      await ask(run);
      return true;
    } catch (error) {
      if (NOT_OURS.has((error as { code?: number }).code ?? 0)) return false;
      throw error;
    }
  };

  return {
    async put(jobs) {
      const entries = jobs.map(entryOf);
      const [only] = entries;
      if (only === undefined) return;
      // Many at once go through a temporary table, which costs more for a single job than adding it.
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
      const id = engineId(jobId);
      if (delayMs <= 0) return unlessLost(() => store.putBackNow(queue.backend, id, token));
      return unlessLost(() => queue.backend.moveToDelayed(id, Date.now(), delayMs, token, { skipAttempt: true }));
    },

    async remove({ jobId, token }) {
      if (token !== null) {
        if (await unlessLost(() => jobOf(jobId).moveToCompleted(null, token, false))) return;
      }
      await ask(() => queue.remove(engineId(jobId)));
    },

    async bury({ jobId, token }, reason) {
      // PostgreSQL stores no NUL in a text, and Redis should show the same.
      const error = new Error(reason.replaceAll('\0', '\uFFFD'));
      await unlessLost(() => jobOf(jobId).moveToFailed(error, token, false));
    },

    async hasten(jobId) {
      await unlessLost(() => jobOf(jobId).promote());
    },

    find: (jobIds) => ask(() => store.find(jobIds)),
    page: (after, limit) => ask(() => store.page(after, limit)),
    alone: store.alone,

    async close() {
      closed = true;
      await worker?.close();
      await queue.close();
      await store.close();
    },
  };

  /** A worker that takes jobs on request only, and runs no checks in the background. */
  function openWorker(id: string) {
    const options = { connection, name: id, autorun: false, lockDuration: lockMs, ...NO_QUESTIONS };
    const opened: BullWorker<B, C> = new bull.Worker(name, null, options, createBackend);
    opened.on('error', store.onError);
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
      // In BullMQ, 0 is the most urgent, but returns to the end of its line instead of the head.
      priority: Math.min(Math.max(1, Math.trunc(priority)), MAX_PRIORITY),
      ...(dueInMs > 0 ? { delay: dueInMs } : {}),
    },
  };
}
