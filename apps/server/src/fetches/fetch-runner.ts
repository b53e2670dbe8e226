import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from '../base/logger.ts';
import { shownUrl } from '../base/shown-url.ts';
import { createLeaseWatch } from '../heartbeats/lease-watch.ts';
import type { FetchLease, FetchRecord, FetchRepository } from '../db/fetch-repository.ts';
import type { MediaRepository } from '../db/media-repository.ts';
import type { Ingest } from '../ingest/ingest.ts';
import type { StagedFile } from '../ingest/receive.ts';
import type { Download } from './download.ts';
import { type FetchHeartbeat, LeaseLostError, startFetchHeartbeat } from './fetch-heartbeat.ts';
import { failureOf, interrupted, isOurs, nextAttemptInMs, RETRY_RULES, type RetryRules } from './fetch-failure.ts';
import { openPartFile } from './part-file.ts';
import { openPartProgress } from './part-progress.ts';
import { SourceError } from './source-error.ts';

export interface FetchRunnerParts {
  fetches: FetchRepository;
  media: Pick<MediaRepository, 'findByIdempotencyKey'>;
  ingest: Pick<Ingest, 'accept'>;
  download: Download;
  /** Where the parts of files are kept, each named by its fetch. Other files may be there too. */
  uploadsDir: string;
  /** Whether others fetch over the same database, into folders of their own. */
  shared?: boolean;
  /** Fetches at once. */
  concurrency: number;
  /** For one fetch, all its attempts together. */
  timeoutMs: number;
  logger: Logger;
  retryRules?: RetryRules;
  /** Between two looks at the queue: for what is due later, and for what others have put into it. */
  intervalMs?: number;
  /** How long the beat of a lease may stand still. */
  leaseMs?: number;
}

/** Works through the queue of fetches. */
export interface FetchRunner {
  /** Clears away parts that belong to no fetch any more, and begins. */
  start(): Promise<void>;
  /**
   * Gives back what is under way, as far as it came.
   * @param options.crashed the process ends for a reason that nobody foresaw, and what is under way may be that reason: the attempts count
   */
  stop(options?: { crashed?: boolean }): Promise<void>;
  /** There is something in the queue: look at once. */
  wake(): void;
  /** A fetch was canceled: stop it at once where it is being fetched here. */
  canceled(id: string): void;
  /** The fetch once it is over; null where it is not within `timeoutMs`, the signal is aborted or the runner stops. */
  settled(id: string, options: { timeoutMs: number; signal: AbortSignal }): Promise<FetchRecord | null>;
}

const INTERVAL_MS = 1_000;
export const FETCH_LEASE_MS = 10_000;
/** On a stop, what has arrived may still be accepted for this long. */
const ACCEPT_GRACE_MS = 5_000;
/** A part, or what is kept beside it. */
const PART_NAME = /^(fch_[0-9a-z]{26})(\.standing)?$/;

/**
 * Voids all leases, for the start of the one process that owns the data folder: whoever held one is gone. The fetches go on where
 * they were.
 */
export async function recoverFetches(fetches: Pick<FetchRepository, 'held' | 'reclaim'>): Promise<void> {
  for (const { token } of await fetches.held()) await fetches.reclaim(token);
}

/** {@link FetchRunner}. Several of them, in processes of their own, can share one queue, and one folder or none. */
export function createFetchRunner(parts: FetchRunnerParts): FetchRunner {
  const { fetches, media, ingest, download, concurrency, logger, intervalMs = INTERVAL_MS } = parts;
  const { retryRules = RETRY_RULES, leaseMs = FETCH_LEASE_MS, shared = false } = parts;
  const leases = createLeaseWatch({ noteSilence: fetches.noteSilence, leaseMs, maxGapMs: 2 * intervalMs });
  const running = new Map<string, { abort: AbortController; done: Promise<void> }>();
  const waiting = new Set<() => void>();
  let timer: NodeJS.Timeout | undefined;
  let looking: Promise<void> = Promise.resolve();
  let started = false;
  let crashed = false;
  const stopping = new AbortController();
  const graceIsOver = new AbortController();

  const partOf = (id: string) => join(parts.uploadsDir, id);
  const removePart = async (id: string) => {
    await rm(partOf(id), { force: true });
    if (shared) await openPartProgress(partOf(id)).drop();
  };
  const keyOf = ({ id, idempotencyKey }: FetchRecord) => idempotencyKey ?? id;

  async function work(lease: FetchLease, signal: AbortSignal): Promise<void> {
    const { fetch } = lease;
    const { projectId, filename, duplicate } = fetch;
    // It may have been accepted by one who could not say so any more.
    const made = await media.findByIdempotencyKey(projectId, keyOf(fetch));
    if (made !== null) {
      const done = { mediaId: made.id, mediaCreated: true, receivedBytes: made.bytes };
      if (await fetches.end(lease, { status: 'done', ...done })) await removePart(fetch.id);
      return;
    }
    if (fetch.fruitlessAttempts > retryRules.maxInterrupted) {
      const failure = interrupted(retryRules.maxInterrupted);
      if (await fetches.end(lease, { status: 'failed', failure })) await removePart(fetch.id);
      logger.error(
        { fetchId: fetch.id, source: shownUrl(fetch.sourceUrl) },
        'a fetch was given up as the service kept ending in it',
      );
      return;
    }
    const standing = openPartProgress(partOf(fetch.id));
    const beat = startFetchHeartbeat(fetches, lease, {
      // Without it the next attempt after a crash begins anew, and that is all.
      onTold: (told) => (shared ? standing.keep(told).catch(warnOf(fetch)) : Promise.resolve()),
    });
    try {
      const staged = await receive(lease, beat, signal);
      if (!(await fetches.beginAccepting(lease))) throw new LeaseLostError();
      const { media: accepted, created } = await ingest.accept({
        ...{ projectId, staged, filename, duplicate, idempotencyKey: keyOf(fetch) },
        signal: graceIsOver.signal,
      });
      const receivedBytes = accepted.bytes;
      // Once the row says that it is done, nothing of it is left here: the bytes are the media object's, which would be found by its key.
      await beat.stop();
      if (shared) await standing.drop();
      await fetches.end(lease, { status: 'done', mediaId: accepted.id, mediaCreated: created, receivedBytes });
      logger.info({ fetchId: fetch.id, mediaId: accepted.id, created, source: shownUrl(fetch.sourceUrl) }, 'fetched');
    } finally {
      await beat.stop();
    }
  }

  const warnOf = (fetch: FetchRecord) => (error: unknown) =>
    logger.warn({ err: error, fetchId: fetch.id }, 'how far a part is could not be written beside it');

  /** Brings all of the file here, from where it is. */
  async function receive(lease: FetchLease, beat: FetchHeartbeat, stop: AbortSignal): Promise<StagedFile> {
    const { fetch } = lease;
    const overall = new AbortController();
    const leftMs = Math.max(0, parts.timeoutMs - fetch.spentMs);
    const limit = setTimeout(() => overall.abort(tookTooLong(parts.timeoutMs)), leftMs);
    const signal = AbortSignal.any([stop, beat.lost, overall.signal]);
    try {
      // Elsewhere it may have come further, or have begun anew with another file.
      const isOurs = !shared || (await openPartProgress(partOf(fetch.id)).take(fetch));
      const part = await openPartFile(partOf(fetch.id), isOurs ? fetch.receivedBytes : 0, signal);
      beat.attach(part);
      try {
        let validator = fetch.validator;
        const staged = await download(fetch, part, {
          signal,
          onWhole: (whole) => {
            validator = whole.validator;
            return beat.whole(whole);
          },
        });
        // Now that is known, also where the source did not say.
        await beat.whole({ totalBytes: staged.bytes, validator });
        return staged;
      } finally {
        // What it says last is where the next attempt goes on.
        await beat.detach();
        await part.close();
      }
    } finally {
      clearTimeout(limit);
    }
  }

  const giveBack = async (lease: FetchLease, as: Parameters<FetchRepository['giveBack']>[1]): Promise<void> => {
    const { id } = lease.fetch;
    const now = shared ? await fetches.find(id) : null;
    // Kept before, as the next attempt may begin at once. Where the lease had gone to another, the row was about what that one did.
    if (now !== null) await openPartProgress(partOf(id)).keep(now);
    if (!(await fetches.giveBack(lease, as)) && shared) await openPartProgress(partOf(id)).drop();
  };

  /** What is to be done about an attempt that did not come to its end. */
  async function failed(lease: FetchLease, signal: AbortSignal, error: unknown): Promise<void> {
    const { fetch } = lease;
    if (stopping.signal.aborted && (signal.aborted || graceIsOver.signal.aborted)) {
      if (!crashed) await giveBack(lease, { kind: 'released' });
      return;
    }
    const now = await fetches.find(fetch.id);
    if (now?.status === 'canceled') await removePart(fetch.id);
    if (signal.aborted || error instanceof LeaseLostError) return;
    const failure = failureOf(error);
    if (failure.code === 'internal_error') {
      logger.error({ err: error, fetchId: fetch.id }, 'a fetch failed for a reason that nobody foresaw');
    }
    const delayMs = nextAttemptInMs(error, now ?? fetch, retryRules);
    const about = { fetchId: fetch.id, source: shownUrl(fetch.sourceUrl), code: failure.code, attempt: fetch.attempts };
    if (delayMs !== null) {
      await giveBack(lease, { kind: 'retry', delayMs, failure, fruitless: !isOurs(error) });
      logger.info({ ...about, delayMs: Math.round(delayMs) }, 'a fetch failed, and is tried again');
      return;
    }
    if (await fetches.end(lease, { status: 'failed', failure })) await removePart(fetch.id);
    logger.info(about, 'a fetch failed');
  }

  function begin(lease: FetchLease): void {
    const { id } = lease.fetch;
    const abort = new AbortController();
    const signal = AbortSignal.any([abort.signal, stopping.signal]);
    const done = work(lease, signal)
      .catch((error: unknown) => failed(lease, signal, error))
      // The database cannot be written: the lease ends by itself.
      .catch((error: unknown) => logger.error({ err: error, fetchId: id }, 'what became of a fetch was not kept'))
      .finally(() => {
        running.delete(id);
        for (const look of waiting) look();
        pump();
      });
    running.set(id, { abort, done });
  }

  function pump(): void {
    looking = looking
      .then(async () => {
        while (started && running.size < concurrency) {
          const lease = await fetches.claim();
          if (lease === null) return;
          begin(lease);
        }
      })
      .catch((error: unknown) => logger.error({ err: error }, 'the queue of fetches could not be looked at'));
  }

  async function reclaimDead(): Promise<void> {
    for (const { token } of await leases.look(await fetches.held())) await fetches.reclaim(token);
  }

  /** Resolves when some fetch here has come to its end, after `ms`, or when the signal is aborted. */
  function nextLook(ms: number, signal: AbortSignal): Promise<void> {
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
  }

  return {
    async start() {
      const alive = new Set(await fetches.unfinished());
      for (const name of await readdir(parts.uploadsDir)) {
        const id = PART_NAME.exec(name)?.[1];
        if (id !== undefined && !alive.has(id)) await rm(join(parts.uploadsDir, name), { force: true });
      }
      started = true;
      pump();
      timer = setInterval(() => {
        looking = looking
          .then(reclaimDead)
          .catch((error: unknown) => logger.error({ err: error }, 'the leases of fetches could not be looked at'));
        pump();
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
      for (const look of waiting) look();
      clearTimeout(grace);
    },

    wake: () => pump(),

    canceled(id) {
      running.get(id)?.abort.abort(new Error('the fetch was canceled'));
      for (const look of waiting) look();
      // Nobody has it open: what came of an earlier attempt goes at once.
      if (!running.has(id)) {
        removePart(id).catch((error: unknown) => logger.warn({ err: error, fetchId: id }, 'a part stays'));
      }
    },

    async settled(id, { timeoutMs, signal }) {
      const deadlineMs = performance.now() + timeoutMs;
      for (;;) {
        const found = await fetches.find(id);
        if (found === null || (found.status !== 'queued' && found.status !== 'fetching')) return found;
        const leftMs = deadlineMs - performance.now();
        if (leftMs <= 0 || signal.aborted || stopping.signal.aborted) return null;
        // Another process may be the one that fetches it.
        await nextLook(Math.min(leftMs, intervalMs), signal);
      }
    },
  };
}

function tookTooLong(ms: number): SourceError {
  return new SourceError('source_timeout', `The file did not arrive within ${ms / 1000} seconds in all.`);
}
