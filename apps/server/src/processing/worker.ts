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
  /** The machine it runs on, for the list of workers. */
  host: string;
  region: string;
  jobs: JobQueue;
  concurrency: number;
  logger: Logger;
  timing?: Partial<WorkerTiming>;
}

/** In milliseconds. */
export interface WorkerTiming {
  /** Between two heartbeats; a lease must outlast several of them. */
  heartbeatMs: number;
  /** Between two looks at the queue if nothing wakes the worker, and between two checks of its own leases. */
  pollMs: number;
  /** Between two writes of a media object's progress. */
  progressMs: number;
  /** Before attempt 2, and ten times that before attempt 3. */
  retryMs: number;
  /** Pause in claiming after the storage was full or did not answer. */
  storagePauseMs: number;
}

/** Processes media as the queue hands them out. */
export interface Worker {
  /** Announces the worker and begins to claim. */
  start(): void;
  /** Checks the queue now. */
  wake(): void;
  /** Claims no more and lets running jobs finish for `graceMs` (default 10 s). Releases the rest; these attempts do not count. */
  stop(options?: { graceMs: number }): Promise<void>;
}

const TIMING: WorkerTiming = {
  heartbeatMs: 3_000,
  pollMs: 1_000,
  progressMs: 1_000,
  retryMs: 1_000,
  storagePauseMs: 10_000,
};
const DEFAULT_GRACE_MS = 10_000;

/** Failures that are no fault of the media object, and the message that is recorded for each. */
const TEMPORARY_FAILURES: Partial<Record<ProblemCode, string>> = {
  insufficient_storage: 'The storage is full. Processing continues when there is room.',
  unavailable: 'The storage or the database did not answer. Processing continues when they do.',
};

const LEASE_LOST = 'the lease was taken away';
const STOPPING = 'the worker is stopping';

/** A claimed job that is being worked on. */
interface Run {
  lease: Lease;
  controller: AbortController;
  done: Promise<void>;
}

/** {@link Worker}: `concurrency` media at once, each under a lease that it renews. */
export function createWorker(parts: WorkerParts): Worker {
  const { id, host, region, jobs, concurrency } = parts;
  const timing = { ...TIMING, ...parts.timing };
  const logger = parts.logger.child({ worker: id });
  const runs = new Set<Run>();
  const lock = createKeyedLock();
  let claiming: Promise<void> | null = null;
  let claimAgain = false;
  let announced: Promise<void> = Promise.resolve();
  let started = false;
  let sinceMs = 0;
  let stopping = false;
  let pausedUntil = 0;
  let timers: NodeJS.Timeout[] = [];

  function wake(): void {
    if (!started || stopping || performance.now() < pausedUntil) return;
    if (claiming !== null) {
      claimAgain = true;
      return;
    }
    claiming = claim()
      .catch((error: unknown) => logger.error({ err: error }, 'no job could be claimed'))
      .finally(() => {
        claiming = null;
        if (!claimAgain) return;
        claimAgain = false;
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
      run.done = processJob(run).finally(() => {
        runs.delete(run);
        wake();
      });
    }
  }

  async function processJob({ lease, controller }: Run): Promise<void> {
    const began = performance.now();
    const log = logger.child({ mediaId: lease.mediaId, attempt: lease.attempt });
    const { signal } = controller;
    const notes = createAttemptNotes();
    const onProgress = createProgressWriter({ jobs, lease, controller, log, intervalMs: timing.progressMs });
    try {
      const published = await processMedia(parts, lease, { signal, notes, lock, onProgress });
      const ms = Math.round(performance.now() - began);
      log.info(
        { ms },
        published ? 'media object is ready' : 'media object or lease is gone; nothing more was published',
      );
    } catch (error) {
      const attempt = { lease, signal, log, notes };
      await settle({ ...parts, retryMs: timing.retryMs, pause }, attempt, error).catch((second: unknown) =>
        // The lease monitor takes over: the lease ends by itself and the job runs again.
        log.error({ err: second, first: error }, 'outcome of a job could not be recorded'),
      );
    }
  }

  function pause(): void {
    pausedUntil = performance.now() + timing.storagePauseMs;
  }

  async function sendHeartbeat(): Promise<void> {
    await jobs.announceWorker({ id, host, pid: process.pid, region, concurrency, sinceMs });
    for (const { lease, controller } of runs) {
      if (!(await jobs.renew(lease))) controller.abort(LEASE_LOST);
    }
  }

  /** Ends runs that lost their lease, so that work on a deleted media object stops within a second. */
  async function checkLeases(): Promise<void> {
    for (const { lease, controller } of runs) {
      if (!(await jobs.isHeld(lease))) controller.abort(LEASE_LOST);
    }
  }

  function poll(): void {
    checkLeases().catch((error: unknown) => logger.warn({ err: error }, 'leases could not be checked'));
    wake();
  }

  return {
    start() {
      if (started) return;
      started = true;
      sinceMs = Date.now();
      const sendHeartbeatAndLog = () =>
        sendHeartbeat().catch((error: unknown) => logger.error({ err: error }, 'leases could not be renewed'));
      // Announced before the first claim: every lease has a known holder.
      announced = sendHeartbeatAndLog();
      timers = [setInterval(() => void sendHeartbeatAndLog(), timing.heartbeatMs), setInterval(poll, timing.pollMs)];
      wake();
    },

    wake,

    async stop({ graceMs } = { graceMs: DEFAULT_GRACE_MS }) {
      if (!started || stopping) return;
      stopping = true;
      await claiming;
      const finished = Promise.all([...runs].map(({ done }) => done));
      const graceTimer = new AbortController();
      await Promise.race([finished, delay(graceMs, undefined, { signal: graceTimer.signal }).catch(() => undefined)]);
      graceTimer.abort();
      for (const { controller } of runs) controller.abort(STOPPING);
      await finished;
      for (const timer of timers) clearInterval(timer);
      await jobs.signOffWorker(id).catch((error: unknown) => logger.warn({ err: error }, 'worker could not sign off'));
    },
  };
}

/** Writes the progress of a run, at most once in `intervalMs`. A shorter run writes no progress, to save the write. */
function createProgressWriter(parts: {
  jobs: Pick<JobQueue, 'progress'>;
  lease: Lease;
  controller: AbortController;
  log: Logger;
  intervalMs: number;
}): (fraction: number) => void {
  const { jobs, lease, controller, log, intervalMs } = parts;
  let writtenAt = performance.now();
  return (fraction) => {
    if (performance.now() - writtenAt < intervalMs) return;
    writtenAt = performance.now();
    jobs.progress(lease, fraction).then(
      (isHeld) => isHeld || controller.abort(LEASE_LOST),
      (error: unknown) => log.warn({ err: error }, 'progress of a media object could not be written'),
    );
  };
}

interface SettleParts {
  jobs: Pick<JobQueue, 'release'>;
  media: Pick<ProcessingParts['media'], 'fail'>;
  retryMs: number;
  /** Claims nothing for a while. */
  pause(): void;
}

interface FailedAttempt {
  lease: Lease;
  signal: AbortSignal;
  log: Logger;
  notes: AttemptNotes;
}

/** Decides the outcome of a failed run: drop it, release the job, retry it, or fail the media object. */
async function settle(parts: SettleParts, attempt: FailedAttempt, thrown: unknown): Promise<void> {
  const { lease, signal, log, notes } = attempt;
  const error = storageError(thrown);
  const temporary = temporaryFailureOf(error);
  if (signal.aborted && signal.reason === LEASE_LOST) {
    log.info('lease was taken away; stopped working on its media object');
  } else if (signal.aborted || (error instanceof RenderError && error.code === 'aborted')) {
    await parts.jobs.release(lease, { kind: 'released' }, notes.report());
    log.info('job released before stop');
  } else if (temporary !== null) {
    // The cause is the storage or the database. Until it is fixed, every attempt would fail.
    parts.pause();
    await parts.jobs.release(lease, { kind: 'released', failure: temporary }, notes.report());
    log.error({ err: error }, 'storage is full or does not answer; pausing');
  } else {
    await settleFailure(parts, attempt, error);
  }
}

async function settleFailure(
  { jobs, media, retryMs }: SettleParts,
  { lease, log, notes }: FailedAttempt,
  error: unknown,
): Promise<void> {
  const failure = failureOf(error);
  if (failure.retryable && lease.attempt < MAX_ATTEMPTS) {
    const delayMs = retryMs * 10 ** (lease.attempt - 1);
    await jobs.release(lease, { kind: 'retry', delayMs, failure }, notes.report());
    log.warn({ err: error, delayMs }, 'processing failed; it will be tried again');
  } else if (await media.fail(lease, failure, notes.report())) {
    log.warn({ err: error, failure: failure.code }, 'media object failed');
  }
}

/** The failure to record if the media object is not at fault; null for any other. */
function temporaryFailureOf(error: unknown): NonNullable<AttemptRecord['failure']> | null {
  const message = error instanceof AppError ? TEMPORARY_FAILURES[error.code] : undefined;
  return error instanceof AppError && message !== undefined ? { code: error.code, message, retryable: true } : null;
}
