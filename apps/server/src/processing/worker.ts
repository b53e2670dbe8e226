import { setTimeout as delay } from 'node:timers/promises';
import type { ProblemCode } from '@mds/contract';
import { RenderError } from '@mds/transcode';
import { AppError } from '../base/app-error.ts';
import { createKeyedLock } from '../base/keyed-lock.ts';
import type { Logger } from '../base/logger.ts';
import { storageError } from '../base/storage-error.ts';
import { type AttemptRecord, type JobQueue, type Lease, MAX_ATTEMPTS } from '../db/job-queue.ts';
import { type AttemptNotes, createAttemptNotes } from './attempt-notes.ts';
import { type ProcessingParts, processMedia } from './process-media.ts';
import { failureOf } from './processing-error.ts';

export interface WorkerParts extends ProcessingParts {
  id: string;
  /** Where it runs, for whoever asks who works. */
  host: string;
  region: string;
  jobs: JobQueue;
  concurrency: number;
  logger: Logger;
  timing?: Partial<WorkerTiming>;
}

/** In milliseconds. */
export interface WorkerTiming {
  /** Between two signs of life; a lease must outlast several of them. */
  beatMs: number;
  /** Between two looks at the queue when nobody wakes the worker, and at whether its own leases still stand. */
  pollMs: number;
  /** Between two notes of how far a media object is. */
  progressMs: number;
  /** Before attempt 2, and ten times that before attempt 3. */
  retryMs: number;
  /** Without claiming, after the storage took no more, or did not answer. */
  storagePauseMs: number;
}

/** Processes media as the queue hands them out. */
export interface Worker {
  /** Announces the worker and begins to claim. */
  start(): void;
  /** There is something in the queue: look now. */
  wake(): void;
  /** Claims no more and lets what runs finish for `graceMs` (default 10 s); what is left then goes back, uncounted. */
  stop(options?: { graceMs: number }): Promise<void>;
}

const TIMING: WorkerTiming = {
  beatMs: 3_000,
  pollMs: 1_000,
  progressMs: 1_000,
  retryMs: 1_000,
  storagePauseMs: 10_000,
};
const DEFAULT_GRACE_MS = 10_000;

/** What a job may run into that no media object is to blame for, and what is noted of it. */
const PASSING: Partial<Record<ProblemCode, string>> = {
  insufficient_storage: 'The storage took no more. Processing goes on when there is room.',
  unavailable: 'The storage or the database did not answer. Processing goes on when they do.',
};

const LEASE_LOST = 'the lease was taken away';
const STOPPING = 'the worker is stopping';

interface Run {
  lease: Lease;
  controller: AbortController;
  done: Promise<void>;
}

/** {@link Worker}: `concurrency` media at once, each under a lease that it renews. */
export function createWorker(parts: WorkerParts): Worker {
  const { id, host, region, jobs, media, concurrency } = parts;
  const timing = { ...TIMING, ...parts.timing };
  const logger = parts.logger.child({ worker: id });
  const runs = new Set<Run>();
  const lock = createKeyedLock();
  let claiming: Promise<void> | null = null;
  let wokenWhileClaiming = false;
  let announced: Promise<void> = Promise.resolve();
  let started = false;
  let sinceMs = 0;
  let stopping = false;
  let pausedUntil = 0;
  let timers: NodeJS.Timeout[] = [];

  function wake(): void {
    if (!started || stopping || performance.now() < pausedUntil) return;
    if (claiming !== null) {
      wokenWhileClaiming = true;
      return;
    }
    claiming = claim()
      .catch((error: unknown) => logger.error({ err: error }, 'no job could be claimed'))
      .finally(() => {
        claiming = null;
        if (!wokenWhileClaiming) return;
        wokenWhileClaiming = false;
        wake();
      });
  }

  async function claim(): Promise<void> {
    await announced;
    while (!stopping && runs.size < concurrency) {
      const lease = await jobs.claim(id);
      if (lease === null) return;
      const controller = new AbortController();
      const run: Run = { lease, controller, done: Promise.resolve() };
      runs.add(run);
      run.done = work(run).finally(() => {
        runs.delete(run);
        wake();
      });
    }
  }

  async function work({ lease, controller }: Run): Promise<void> {
    const began = performance.now();
    const log = logger.child({ mediaId: lease.mediaId, attempt: lease.attempt });
    const { signal } = controller;
    const notes = createAttemptNotes();
    // What is over soon is never written down: it would cost more than it tells.
    let toldAt = began;
    const onProgress = (fraction: number) => {
      if (performance.now() - toldAt < timing.progressMs) return;
      toldAt = performance.now();
      jobs.progress(lease, fraction).then(
        (stands) => stands || controller.abort(LEASE_LOST),
        (error: unknown) => log.warn({ err: error }, 'the progress of a media object could not be noted'),
      );
    };
    try {
      const published = await processMedia(parts, lease, { signal, notes, lock, onProgress });
      const ms = Math.round(performance.now() - began);
      log.info(
        { ms },
        published ? 'media object is ready' : 'the media object or its lease is gone; nothing more was published',
      );
    } catch (error) {
      // A failure to record the failure is the lease monitor's: the lease ends by itself and the job runs again.
      await settle(lease, signal, error, { log, notes }).catch((second: unknown) =>
        log.error({ err: second, first: error }, 'the outcome of a job could not be recorded'),
      );
    }
  }

  /** Decides what becomes of a job that did not end well. */
  async function settle(
    lease: Lease,
    signal: AbortSignal,
    thrown: unknown,
    { log, notes }: { log: Logger; notes: AttemptNotes },
  ): Promise<void> {
    const error = storageError(thrown);
    const passing = passingFailureOf(error);
    if (signal.aborted && signal.reason === LEASE_LOST) {
      log.info('stopped working on a media object whose lease was taken away');
    } else if (signal.aborted || (error instanceof RenderError && error.code === 'aborted')) {
      await jobs.giveBack(lease, { kind: 'released' }, notes.report());
      log.info('gave a job back on the way out');
    } else if (passing !== null) {
      // No media object is to blame, and no attempt is worth anything before it has passed.
      pausedUntil = performance.now() + timing.storagePauseMs;
      await jobs.giveBack(lease, { kind: 'released', failure: passing }, notes.report());
      log.error({ err: error }, 'the storage takes no more, or does not answer; pausing');
    } else {
      await settleFailure(lease, error, { log, notes });
    }
  }

  async function settleFailure(
    lease: Lease,
    error: unknown,
    { log, notes }: { log: Logger; notes: AttemptNotes },
  ): Promise<void> {
    const failure = failureOf(error);
    if (failure.retryable && lease.attempt < MAX_ATTEMPTS) {
      const delayMs = timing.retryMs * 10 ** (lease.attempt - 1);
      await jobs.giveBack(lease, { kind: 'retry', delayMs, failure }, notes.report());
      log.warn({ err: error, delayMs }, 'processing failed; it will be tried again');
    } else if (await media.fail(lease, failure, notes.report())) {
      log.warn({ err: error, failure: failure.code }, 'the media object failed');
    }
  }

  async function beat(): Promise<void> {
    await jobs.workerBeat({ id, host, pid: process.pid, region, concurrency, sinceMs });
    for (const { lease, controller } of runs) {
      if (!(await jobs.renew(lease))) controller.abort(LEASE_LOST);
    }
  }

  /** Whether the media that are worked on are still wanted: one that was deleted should cost no more than a moment. */
  async function lookAtLeases(): Promise<void> {
    for (const { lease, controller } of runs) {
      if (!(await jobs.stands(lease))) controller.abort(LEASE_LOST);
    }
  }

  function look(): void {
    lookAtLeases().catch((error: unknown) => logger.warn({ err: error }, 'the leases could not be looked at'));
    wake();
  }

  return {
    start() {
      if (started) return;
      started = true;
      sinceMs = Date.now();
      const beatAndLog = () =>
        beat().catch((error: unknown) => logger.error({ err: error }, 'the worker could not renew its leases'));
      // Announced before the first claim, so that whoever sees a lease can tell whose it is.
      announced = beatAndLog();
      timers = [setInterval(() => void beatAndLog(), timing.beatMs), setInterval(look, timing.pollMs)];
      wake();
    },

    wake,

    async stop({ graceMs } = { graceMs: DEFAULT_GRACE_MS }) {
      if (!started || stopping) return;
      stopping = true;
      await claiming;
      const finished = Promise.all([...runs].map(({ done }) => done));
      const enough = new AbortController();
      await Promise.race([finished, delay(graceMs, undefined, { signal: enough.signal }).catch(() => undefined)]);
      enough.abort();
      for (const { controller } of runs) controller.abort(STOPPING);
      await finished;
      for (const timer of timers) clearInterval(timer);
      await jobs.workerGone(id).catch((error: unknown) => logger.warn({ err: error }, 'the worker could not sign off'));
    },
  };
}

/** What is noted of a job that ran into something that no media object is to blame for; null where it ran into anything else. */
function passingFailureOf(error: unknown): NonNullable<AttemptRecord['failure']> | null {
  const message = error instanceof AppError ? PASSING[error.code] : undefined;
  return error instanceof AppError && message !== undefined ? { code: error.code, message, retryable: true } : null;
}
