import type { Logger } from '../../base/logger.ts';
import type { JobQueue, JobRecord } from '../../db/job-queue.ts';
import { EngineAwayError, type EngineJob, type QueueEngine } from './queue-engine.ts';

/** Jobs in one comparison step. */
const PAGE = 1_000;
/**
 * Shortest pause between two comparisons. It grows with their duration, so that they take less than a twentieth of the
 * time.
 */
const INTERVAL_MS = 10_000;
const PAUSE_PER_MS = 20;
/** If a job is active in the engine and its row disagrees, it is being claimed or ended. After this time, its claim counts as dead. */
const SUSPECT_MS = 15_000;
/** Tolerance between the clocks of two machines; a delay that is missed by this much does no harm. */
const CLOCKS_DIFFER_MS = 1_000;

export interface ReconcilerParts {
  rows: Pick<JobQueue, 'records'>;
  engine: QueueEngine;
  logger: Logger;
  /** Infinity: only on request. */
  intervalMs?: number;
  suspectMs?: number;
  pageSize?: number;
  /** Milliseconds of a clock that never jumps. */
  monotonicNow?: () => number;
}

/** The repairs of a comparison. */
export interface Reconciled {
  /** Jobs that wait by their rows, but were missing in the engine. */
  added: number;
  /** Jobs of the engine without a row. */
  removed: number;
  /** Due jobs that the engine delayed, or had active without a claim. */
  freed: number;
}

/** Compares rows and engine, and corrects the engine. */
export interface Reconciler {
  start(): void;
  /** Compares now; null if another process does. */
  reconcile(): Promise<Reconciled | null>;
  stop(): Promise<void>;
}

/** {@link Reconciler} that reads both sides page by page, in one process at a time. */
export function createReconciler(parts: ReconcilerParts): Reconciler {
  const { rows, engine, logger, intervalMs = INTERVAL_MS, suspectMs = SUSPECT_MS } = parts;
  const { pageSize = PAGE, monotonicNow = () => performance.now() } = parts;
  /** When a claim of the engine was first seen to differ from the row, by token. */
  let suspects = new Map<string, number>();
  let running: Promise<unknown> = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;

  async function compare(): Promise<Reconciled> {
    const done = { added: 0, removed: 0, freed: 0 };
    const before = suspects;
    suspects = new Map();
    await followRows(done, before);
    await dropRowless(done, before);
    return done;
  }

  /** Whether this claim has differed from the row for long enough. */
  function isAbandoned(job: EngineJob & { token: string }, before: Map<string, number>): boolean {
    const since = before.get(job.token) ?? monotonicNow();
    suspects.set(job.token, since);
    return monotonicNow() - since >= suspectMs;
  }

  async function followRows(done: Reconciled, before: Map<string, number>): Promise<void> {
    for (let afterId = 0; ; ) {
      const page = await rows.records({ afterId, limit: pageSize });
      const free = page.filter(({ token }) => token === null);
      const known = new Map((await engine.find(free.map(({ jobId }) => jobId))).map((job) => [job.jobId, job]));
      const missing: JobRecord[] = [];
      for (const row of free) {
        const job = known.get(row.jobId);
        if (job === undefined) missing.push(row);
        else if (isOver(job)) {
          await engine.remove({ jobId: row.jobId, token: null });
          missing.push(row);
        } else if (await setFree(row, job, before)) done.freed += 1;
      }
      await engine.put(missing);
      done.added += missing.length;
      const last = page.at(-1);
      if (page.length < pageSize || last === undefined) return;
      afterId = last.jobId;
    }
  }

  /** A free and due job must be available: neither delayed after a clock was set back, nor active without a claim. */
  async function setFree(row: JobRecord, job: EngineJob, before: Map<string, number>): Promise<boolean> {
    const { jobId, state, token } = job;
    if (state === 'delayed' && row.dueInMs === 0 && job.dueInMs > CLOCKS_DIFFER_MS) {
      await engine.hasten(jobId);
      return true;
    }
    if (state !== 'active' || token === null) return false;
    return isAbandoned({ ...job, token }, before) && engine.putBack({ jobId, token }, row.dueInMs);
  }

  async function dropRowless(done: Reconciled, before: Map<string, number>): Promise<void> {
    for (let after: string | null = null; ; ) {
      const { jobs, next } = await engine.page(after, pageSize);
      const known = new Set((await rows.records({ jobIds: jobs.map(({ jobId }) => jobId) })).map(({ jobId }) => jobId));
      for (const { token, ...job } of jobs) {
        if (known.has(job.jobId)) continue;
        if (token !== null && !isAbandoned({ ...job, token }, before)) continue;
        await engine.remove({ jobId: job.jobId, token });
        done.removed += 1;
      }
      if (next === null) return;
      after = next;
    }
  }

  async function reconcile(): Promise<Reconciled | null> {
    const done = await engine.alone(compare);
    if (done !== null && done.added + done.removed + done.freed > 0) {
      logger.info(done, 'rows and job engine differed; the engine follows the rows again');
    }
    return done;
  }

  function again(delayMs: number): void {
    if (stopped) return;
    timer = setTimeout(() => {
      const began = monotonicNow();
      running = reconcile().then(
        () => again(Math.max(intervalMs, PAUSE_PER_MS * (monotonicNow() - began))),
        (error: unknown) => {
          if (!(error instanceof EngineAwayError))
            logger.error({ err: error }, 'rows and job engine could not be compared');
          // A failed comparison does not count as work: most of its time was waiting.
          again(intervalMs);
        },
      );
    }, delayMs);
    timer.unref();
  }

  return {
    start() {
      if (timer === undefined && Number.isFinite(intervalMs)) again(0);
    },
    reconcile,
    async stop() {
      stopped = true;
      clearTimeout(timer);
      await running;
    },
  };
}

/** Whether the engine will not hand out this job any more, and no claim can give it back. */
function isOver({ state, token }: EngineJob): boolean {
  return state === 'finished' || (state === 'active' && token === null);
}
