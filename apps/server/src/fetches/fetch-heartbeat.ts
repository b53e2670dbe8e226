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

/** Tells every second that a fetch is being worked on, and how far it is. */
export interface FetchHeartbeat {
  /** From now on it is this that arrives. */
  attach(part: PartFile): void;
  /** It has come as far as it will; told at once. */
  detach(): Promise<void>;
  /** What the part is a part of; on return that is written. @throws LeaseLostError; what the database fails with */
  whole(whole: Whole): Promise<void>;
  /** Aborted with {@link LeaseLostError} once the lease is lost. */
  readonly lost: AbortSignal;
  stop(): Promise<void>;
}

const INTERVAL_MS = 1_000;

/** What the row of a fetch says of how far it is. */
export type FetchProgress = Pick<FetchRecord, 'receivedBytes' | 'totalBytes' | 'validator' | 'spentMs'>;

/**
 * Makes {@link FetchHeartbeat}, which beats from now on. What is told to have arrived has been synced before. A beat that fails is passed
 * over: where none gets through, the lease ends.
 * @param options.onTold told what the row says now, after each beat and before the next
 */
export function startFetchHeartbeat(
  fetches: Pick<FetchRepository, 'beat'>,
  lease: FetchLease,
  options: { intervalMs?: number; onTold?: (standing: FetchProgress) => Promise<void> } = {},
): FetchHeartbeat {
  const { intervalMs = INTERVAL_MS, onTold = async () => undefined } = options;
  const before = lease.fetch.receivedBytes;
  const lost = new AbortController();
  let { receivedBytes, totalBytes, validator, spentMs } = lease.fetch;
  let part: PartFile | null = null;
  let lastMs = performance.now();
  let beating: Promise<void> = Promise.resolve();

  const beat = async () => {
    lost.signal.throwIfAborted();
    // Taken together, before anything is waited for: bytes belong to a validator.
    const known = { totalBytes, validator };
    if (part !== null) receivedBytes = await part.sync();
    const nowMs = performance.now();
    const fruitful = known.validator !== null && receivedBytes > before;
    const sinceMs = Math.round(nowMs - lastMs);
    const stands = await fetches.beat(lease, { ...known, receivedBytes, spentMs: sinceMs, fruitful });
    lastMs = nowMs;
    if (!stands) lost.abort(new LeaseLostError());
    lost.signal.throwIfAborted();
    spentMs += sinceMs;
    await onTold({ ...known, receivedBytes, spentMs });
  };
  const next = (): Promise<void> => {
    const mine = beating.then(beat);
    beating = mine.catch(() => undefined);
    return mine;
  };
  const timer = setInterval(() => void next().catch(() => undefined), intervalMs);
  timer.unref();

  return {
    attach(arriving) {
      part = arriving;
    },
    async detach() {
      if (part === null) return;
      next().catch(() => undefined);
      await beating;
      part = null;
    },
    whole(known) {
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
