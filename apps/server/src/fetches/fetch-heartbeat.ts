import type { FetchLease, FetchRecord, FetchRepository } from '../db/fetch-repository.ts';
import type { Whole } from './download.ts';
import type { PartFile } from './part-file.ts';

/** The lease was taken away: the fetch was canceled, or its holder was taken for dead. */
export class LeaseLostError extends Error {
  constructor() {
    super('the lease of a fetch was taken away');
    this.name = 'LeaseLostError';
  }
}

/** Writes every second that a fetch is being worked on, and its progress. */
export interface FetchHeartbeat {
  /** From now on, the progress is that of this part. */
  attach(part: PartFile): void;
  /** The part grows no more. Its progress is written at once. */
  detach(): Promise<void>;
  /** Sets what is known of the whole file. On return that is written. @throws LeaseLostError; errors of the database */
  setWhole(whole: Whole): Promise<void>;
  /** Aborted with {@link LeaseLostError} once the lease is lost. */
  readonly lost: AbortSignal;
  stop(): Promise<void>;
}

const INTERVAL_MS = 1_000;

/** The progress of a fetch in its row. */
export type FetchProgress = Pick<FetchRecord, 'receivedBytes' | 'totalBytes' | 'validator' | 'spentMs'>;

/**
 * Starts a {@link FetchHeartbeat}. Bytes are synced before they are reported. A heartbeat that fails is skipped; if all of them fail, the
 * lease ends.
 * @param options.onWritten called with the progress in the row, after each heartbeat and before the next
 */
export function startFetchHeartbeat(
  fetches: Pick<FetchRepository, 'beat'>,
  lease: FetchLease,
  options: { intervalMs?: number; onWritten?: (progress: FetchProgress) => Promise<void> } = {},
): FetchHeartbeat {
  const { intervalMs = INTERVAL_MS, onWritten = async () => undefined } = options;
  const before = lease.fetch.receivedBytes;
  const lost = new AbortController();
  let { receivedBytes, totalBytes, validator, spentMs } = lease.fetch;
  let part: PartFile | null = null;
  let lastMs = performance.now();
  let beating: Promise<void> = Promise.resolve();

  const beat = async () => {
    lost.signal.throwIfAborted();
    // Read together, before any await: bytes belong to a validator.
    const known = { totalBytes, validator };
    if (part !== null) receivedBytes = await part.sync();
    const nowMs = performance.now();
    const fruitful = known.validator !== null && receivedBytes > before;
    const sinceMs = Math.round(nowMs - lastMs);
    const isHeld = await fetches.beat(lease, { ...known, receivedBytes, spentMs: sinceMs, fruitful });
    lastMs = nowMs;
    if (!isHeld) lost.abort(new LeaseLostError());
    lost.signal.throwIfAborted();
    spentMs += sinceMs;
    await onWritten({ ...known, receivedBytes, spentMs });
  };
  const next = (): Promise<void> => {
    const mine = beating.then(beat);
    beating = mine.catch(() => undefined);
    return mine;
  };
  const timer = setInterval(() => void next().catch(() => undefined), intervalMs);
  timer.unref();

  return {
    attach(arrivingPart) {
      part = arrivingPart;
    },
    async detach() {
      if (part === null) return;
      next().catch(() => undefined);
      await beating;
      part = null;
    },
    setWhole(known) {
      ({ totalBytes, validator } = known);
      return next();
    },
    lost: lost.signal,
    async stop() {
      clearInterval(timer);
      await beating;
    },
  };
}
