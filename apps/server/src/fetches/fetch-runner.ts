import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from '../base/logger.ts';
import type { FetchLease, FetchRecord, FetchRepository } from '../db/fetch-repository.ts';
import type { MediaRepository } from '../db/media-repository.ts';
import { createLeaseWatch } from '../heartbeats/lease-watch.ts';
import type { Ingest } from '../ingest/ingest.ts';
import type { Download } from './download.ts';
import { createFetchAttempts } from './fetch-attempts.ts';
import { RETRY_RULES, type RetryRules } from './fetch-failure.ts';

export interface FetchRunnerParts {
  fetches: FetchRepository;
  media: Pick<MediaRepository, 'findByIdempotencyKey'>;
  ingest: Pick<Ingest, 'accept'>;
  download: Download;
  /** Folder of the parts of files, each named by its fetch. Other files may be there, too. */
  uploadsDir: string;
  /** Whether other processes fetch with the same database, into folders of their own. */
  shared?: boolean;
  /** Fetches at once. */
  concurrency: number;
  /** For one fetch, all its attempts together. */
  timeoutMs: number;
  logger: Logger;
  retryRules?: RetryRules;
  /** Between two looks at the queue, for what becomes due and for what others have added. */
  intervalMs?: number;
  /** A lease ends if its heartbeat stands still for this long. */
  leaseMs?: number;
}

/** Works through the queue of fetches. */
export interface FetchRunner {
  /** Removes parts that belong to no fetch any more, and begins. */
  start(): Promise<void>;
  /**
   * Gives back running fetches with their progress.
   * @param options.crashed the process ends for an unforeseen reason, which a running fetch may have caused: the attempts count
   */
  stop(options?: { crashed?: boolean }): Promise<void>;
  /** Looks into the queue at once. */
  wake(): void;
  /** Stops a canceled fetch at once if it runs here. */
  canceled(id: string): void;
  /** Returns the fetch when it is over; null after `timeoutMs`, if the signal is aborted or if the runner stops. */
  settled(id: string, options: { timeoutMs: number; signal: AbortSignal }): Promise<FetchRecord | null>;
}

const INTERVAL_MS = 1_000;
export const FETCH_LEASE_MS = 10_000;
/** On a stop, a file that has arrived may still be accepted for this long. */
const ACCEPT_GRACE_MS = 5_000;
/** A part, or its progress file. */
const PART_NAME = /^(fch_[0-9a-z]{26})(\.standing)?$/;

/**
 * Voids all leases, at the start of the one process that owns the data folder: their holders are gone. The fetches resume where they
 * were.
 */
export async function recoverFetches(fetches: Pick<FetchRepository, 'held' | 'reclaim'>): Promise<void> {
  for (const { token } of await fetches.held()) await fetches.reclaim(token);
}

/** {@link FetchRunner}. Several of them, in processes of their own, can share one queue, and one folder or none. */
export function createFetchRunner(parts: FetchRunnerParts): FetchRunner {
  const { fetches, concurrency, uploadsDir, logger, intervalMs = INTERVAL_MS } = parts;
  const { retryRules = RETRY_RULES, leaseMs = FETCH_LEASE_MS, shared = false } = parts;
  const leases = createLeaseWatch({ noteSilence: fetches.noteSilence, leaseMs, maxGapMs: 2 * intervalMs });
  const running = new Map<string, { abort: AbortController; done: Promise<void> }>();
  const endings = createEndings();
  const stopping = new AbortController();
  const graceIsOver = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  let looking: Promise<void> = Promise.resolve();
  let started = false;
  let crashed = false;
  const attempts = createFetchAttempts({
    ...{ fetches, media: parts.media, ingest: parts.ingest, download: parts.download, uploadsDir, shared },
    ...{ timeoutMs: parts.timeoutMs, retryRules, logger },
    stopping: stopping.signal,
    graceIsOver: graceIsOver.signal,
    isCrashing: () => crashed,
  });

  function begin(lease: FetchLease): void {
    const { id } = lease.fetch;
    const abort = new AbortController();
    const done = attempts
      .run(lease, AbortSignal.any([abort.signal, stopping.signal]))
      // If the database cannot be written, the lease ends by itself.
      .catch((error: unknown) => logger.error({ err: error, fetchId: id }, 'outcome of a fetch could not be recorded'))
      .finally(() => {
        running.delete(id);
        endings.announce();
        claimAll();
      });
    running.set(id, { abort, done });
  }

  function claimAll(): void {
    looking = looking
      .then(async () => {
        while (started && running.size < concurrency) {
          const lease = await fetches.claim();
          if (lease === null) return;
          begin(lease);
        }
      })
      .catch((error: unknown) => logger.error({ err: error }, 'no fetch could be claimed'));
  }

  async function reclaimDead(): Promise<void> {
    for (const { token } of await leases.look(await fetches.held())) await fetches.reclaim(token);
  }

  return {
    async start() {
      await removeStrangeParts(uploadsDir, new Set(await fetches.unfinished()));
      started = true;
      claimAll();
      timer = setInterval(() => {
        looking = looking
          .then(reclaimDead)
          .catch((error: unknown) => logger.error({ err: error }, 'leases of fetches could not be checked'));
        claimAll();
      }, intervalMs);
      timer.unref();
    },

    async stop({ crashed: withCrash = false } = {}) {
      started = false;
      crashed = withCrash;
      clearInterval(timer);
      stopping.abort(new Error('the service stops'));
      const grace = setTimeout(() => graceIsOver.abort(new Error('the service stops')), ACCEPT_GRACE_MS);
      await looking;
      await Promise.all([...running.values()].map(({ done }) => done));
      endings.announce();
      clearTimeout(grace);
    },

    wake: () => claimAll(),

    canceled(id) {
      running.get(id)?.abort.abort(new Error('the fetch was canceled'));
      endings.announce();
      // It does not run here, so nothing has the part of an earlier attempt open.
      if (!running.has(id)) {
        attempts
          .removePart(id)
          .catch((error: unknown) => logger.warn({ err: error, fetchId: id }, 'part could not be removed'));
      }
    },

    async settled(id, { timeoutMs, signal }) {
      const deadlineMs = performance.now() + timeoutMs;
      for (;;) {
        const found = await fetches.find(id);
        if (found === null || (found.status !== 'queued' && found.status !== 'fetching')) return found;
        const leftMs = deadlineMs - performance.now();
        if (leftMs <= 0 || signal.aborted || stopping.signal.aborted) return null;
        // Another process may be fetching it, so the wait is bounded.
        await endings.next(Math.min(leftMs, intervalMs), signal);
      }
    },
  };
}

/** A runner that can be started again after it was stopped: each start makes another one. */
export function createRestartableFetchRunner(make: () => FetchRunner): FetchRunner {
  let runner = make();
  let isUsed = false;
  return {
    start() {
      if (isUsed) runner = make();
      isUsed = true;
      return runner.start();
    },
    stop: (options) => runner.stop(options),
    wake: () => runner.wake(),
    canceled: (id) => runner.canceled(id),
    settled: (id, options) => runner.settled(id, options),
  };
}

/** Lets requests wait for the end of some fetch in this process. */
function createEndings() {
  const waiting = new Set<() => void>();
  return {
    announce() {
      for (const end of waiting) end();
    },
    /** Resolves at the next announcement, after `ms`, or when the signal is aborted. */
    next(ms: number, signal: AbortSignal): Promise<void> {
      return new Promise((resolve) => {
        const end = () => {
          clearTimeout(clock);
          waiting.delete(end);
          signal.removeEventListener('abort', end);
          resolve();
        };
        const clock = setTimeout(end, ms);
        waiting.add(end);
        signal.addEventListener('abort', end, { once: true });
      });
    },
  };
}

async function removeStrangeParts(folder: string, unfinished: ReadonlySet<string>): Promise<void> {
  for (const name of await readdir(folder)) {
    const id = PART_NAME.exec(name)?.[1];
    if (id !== undefined && !unfinished.has(id)) await rm(join(folder, name), { force: true });
  }
}
