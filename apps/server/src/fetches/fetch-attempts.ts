import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from '../base/logger.ts';
import { shownUrl } from '../base/shown-url.ts';
import type { FetchLease, FetchRecord, FetchRepository } from '../db/fetch-repository.ts';
import type { MediaRepository } from '../db/media-repository.ts';
import type { Ingest } from '../ingest/ingest.ts';
import type { StagedFile } from '../ingest/receive.ts';
import type { Download } from './download.ts';
import { failureOf, interruptionFailure, isServiceFailure, nextAttemptInMs, type RetryRules } from './fetch-failure.ts';
import { type FetchHeartbeat, LeaseLostError, startFetchHeartbeat } from './fetch-heartbeat.ts';
import { openPartFile } from './part-file.ts';
import { openPartProgress } from './part-progress.ts';
import { SourceError } from './source-error.ts';

export interface FetchAttemptsParts {
  fetches: FetchRepository;
  media: Pick<MediaRepository, 'findByIdempotencyKey'>;
  ingest: Pick<Ingest, 'accept'>;
  download: Download;
  uploadsDir: string;
  /** Whether other processes fetch with the same database, into folders of their own. */
  shared: boolean;
  /** For one fetch, all its attempts together. */
  timeoutMs: number;
  retryRules: RetryRules;
  /** Aborted when the runner stops. */
  stopping: AbortSignal;
  /** Aborted a while later: files that arrived before are accepted no more. */
  graceIsOver: AbortSignal;
  /** Whether the process stops for an unforeseen reason: then the attempts count. */
  isCrashing(): boolean;
  logger: Logger;
}

/** Attempts at fetches that this process has claimed. */
export interface FetchAttempts {
  /** Fetches a file and accepts it, or records why not. @throws only if the outcome cannot be recorded */
  run(lease: FetchLease, signal: AbortSignal): Promise<void>;
  /** Removes what has arrived of a fetch here. */
  removePart(id: string): Promise<void>;
}

export function createFetchAttempts(parts: FetchAttemptsParts): FetchAttempts {
  const { fetches, media, ingest, download, shared, retryRules, stopping, graceIsOver, logger } = parts;

  const partOf = (id: string) => join(parts.uploadsDir, id);
  const removePart = async (id: string) => {
    await rm(partOf(id), { force: true });
    if (shared) await openPartProgress(partOf(id)).remove();
  };
  const keyOf = ({ id, idempotencyKey }: FetchRecord) => idempotencyKey ?? id;

  async function fetchAndAccept(lease: FetchLease, signal: AbortSignal): Promise<void> {
    const { fetch } = lease;
    if ((await endIfAccepted(lease)) || (await endIfInterrupted(lease))) return;
    const { projectId, filename, duplicate } = fetch;
    const progress = openPartProgress(partOf(fetch.id));
    const heartbeat = startFetchHeartbeat(fetches, lease, {
      // If this fails, the next attempt after a crash begins anew. Nothing else depends on it.
      onWritten: (written) => (shared ? progress.save(written).catch(warnOf(fetch)) : Promise.resolve()),
    });
    try {
      const staged = await receive(lease, heartbeat, signal);
      if (!(await fetches.beginAccepting(lease))) throw new LeaseLostError();
      const { media: accepted, created } = await ingest.accept({
        ...{ projectId, staged, filename, duplicate, idempotencyKey: keyOf(fetch) },
        signal: graceIsOver,
      });
      // Everything here is removed before the row is `done`. The media object has the bytes and is found by its key.
      await heartbeat.stop();
      if (shared) await progress.remove();
      const done = { mediaId: accepted.id, mediaCreated: created, receivedBytes: accepted.bytes };
      await fetches.end(lease, { status: 'done', ...done });
      logger.info({ fetchId: fetch.id, mediaId: accepted.id, created, source: shownUrl(fetch.sourceUrl) }, 'fetched');
    } finally {
      await heartbeat.stop();
    }
  }

  /** Ends a fetch whose file was accepted by an attempt that could not record it. */
  async function endIfAccepted(lease: FetchLease): Promise<boolean> {
    const { fetch } = lease;
    const made = await media.findByIdempotencyKey(fetch.projectId, keyOf(fetch));
    if (made === null) return false;
    const done = { mediaId: made.id, mediaCreated: true, receivedBytes: made.bytes };
    if (await fetches.end(lease, { status: 'done', ...done })) await removePart(fetch.id);
    return true;
  }

  /** Gives up a fetch in which the service ended too often. */
  async function endIfInterrupted(lease: FetchLease): Promise<boolean> {
    const { fetch } = lease;
    if (fetch.fruitlessAttempts <= retryRules.maxInterrupted) return false;
    const failure = interruptionFailure(retryRules.maxInterrupted);
    if (await fetches.end(lease, { status: 'failed', failure })) await removePart(fetch.id);
    const source = shownUrl(fetch.sourceUrl);
    logger.error({ fetchId: fetch.id, source }, 'fetch given up: the service kept ending in it');
    return true;
  }

  const warnOf = (fetch: FetchRecord) => (error: unknown) =>
    logger.warn({ err: error, fetchId: fetch.id }, 'progress of a part could not be written beside it');

  /** Downloads the file from where its part ends. */
  async function receive(lease: FetchLease, heartbeat: FetchHeartbeat, stop: AbortSignal): Promise<StagedFile> {
    const { fetch } = lease;
    const overall = new AbortController();
    const leftMs = Math.max(0, parts.timeoutMs - fetch.spentMs);
    const limit = setTimeout(() => overall.abort(tookTooLong(parts.timeoutMs)), leftMs);
    const signal = AbortSignal.any([stop, heartbeat.lost, overall.signal]);
    try {
      // On another machine it may have progressed further, or begun anew with another file.
      const isCurrent = !shared || (await openPartProgress(partOf(fetch.id)).takeIfMatching(fetch));
      const part = await openPartFile(partOf(fetch.id), isCurrent ? fetch.receivedBytes : 0, signal);
      heartbeat.attach(part);
      try {
        let validator = fetch.validator;
        const staged = await download(fetch, part, {
          signal,
          onWhole: (whole) => {
            validator = whole.validator;
            return heartbeat.setWhole(whole);
          },
        });
        // The size is known now, even if the source did not announce it.
        await heartbeat.setWhole({ totalBytes: staged.bytes, validator });
        return staged;
      } finally {
        // The next attempt resumes at what is written last.
        await heartbeat.detach();
        await part.close();
      }
    } finally {
      clearTimeout(limit);
    }
  }

  async function giveBack(lease: FetchLease, as: Parameters<FetchRepository['giveBack']>[1]): Promise<void> {
    const { id } = lease.fetch;
    const current = shared ? await fetches.find(id) : null;
    // Saved first, because the next attempt may begin at once. If the lease was lost, the row is of another holder's part.
    if (current !== null) await openPartProgress(partOf(id)).save(current);
    if (!(await fetches.giveBack(lease, as)) && shared) await openPartProgress(partOf(id)).remove();
  }

  /** Decides what becomes of a fetch whose attempt failed: given back, tried again, or failed. */
  async function settle(lease: FetchLease, signal: AbortSignal, error: unknown): Promise<void> {
    const { fetch } = lease;
    if (stopping.aborted && (signal.aborted || graceIsOver.aborted)) {
      if (!parts.isCrashing()) await giveBack(lease, { kind: 'released' });
      return;
    }
    const current = await fetches.find(fetch.id);
    if (current?.status === 'canceled') await removePart(fetch.id);
    if (signal.aborted || error instanceof LeaseLostError) return;
    const failure = failureOf(error);
    if (failure.code === 'internal_error') {
      logger.error({ err: error, fetchId: fetch.id }, 'fetch failed for an unforeseen reason');
    }
    const delayMs = nextAttemptInMs(error, current ?? fetch, retryRules);
    const about = { fetchId: fetch.id, source: shownUrl(fetch.sourceUrl), code: failure.code, attempt: fetch.attempts };
    if (delayMs !== null) {
      await giveBack(lease, { kind: 'retry', delayMs, failure, fruitless: !isServiceFailure(error) });
      logger.info({ ...about, delayMs: Math.round(delayMs) }, 'fetch failed and is tried again');
      return;
    }
    if (await fetches.end(lease, { status: 'failed', failure })) await removePart(fetch.id);
    logger.info(about, 'fetch failed');
  }

  return {
    run: (lease, signal) => fetchAndAccept(lease, signal).catch((error: unknown) => settle(lease, signal, error)),
    removePart,
  };
}

function tookTooLong(ms: number): SourceError {
  return new SourceError('source_timeout', `The file did not arrive within ${ms / 1000} seconds in all.`);
}
