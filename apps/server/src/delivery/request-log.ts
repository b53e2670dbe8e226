import type { Logger } from 'pino';
import type { AssetRepository, DeliveredAsset } from '../db/delivery-repository.ts';
import { toldOf } from './object-origin.ts';

/** Successful deliveries on their way into the asset records. */
export interface RequestLog {
  /** Notes a delivery. Takes no time: it is written behind. */
  record(delivery: DeliveredAsset): void;
  /** Writes everything noted so far. Resolves also where the database fails: what was noted is kept and tried again. */
  flush(): Promise<void>;
  start(): void;
  /** Writes what is left and stops. */
  stop(): Promise<void>;
  readonly stats: RequestLogStats;
}

export interface RequestLogStats {
  pending: number;
  /** Paths that were let go of for want of room, since the start. */
  dropped: number;
}

/** Records in one transaction: a few milliseconds of the event loop. */
const BATCH = 200;

/**
 * The request log of a point of presence: written behind every `flushMs`, one record for a path however often it was
 * asked for in between, at most `maxPending` paths; beyond that the ones requested longest ago are dropped.
 * @param deps.keep asset records that the database keeps for a region
 */
export function createRequestLog(deps: {
  assets: Pick<AssetRepository, 'record'>;
  keep?: number;
  flushMs?: number;
  maxPending?: number;
  logger: Pick<Logger, 'warn' | 'info' | 'error'>;
}): RequestLog {
  const { assets, logger, keep = 10_000, flushMs = 500, maxPending = 10_000 } = deps;
  /** By region and path; in order of the latest request. */
  let pending = new Map<string, DeliveredAsset>();
  /** The last one of `pending`: a path that is asked for over and over need not be moved to where it is. */
  let newest: DeliveredAsset | null = null;
  let dropped = 0;
  let droppedAndTold = 0;
  let failing = false;
  let flushing: Promise<void> | null = null;
  let timer: NodeJS.Timeout | null = null;

  const keyOf = ({ region, path }: DeliveredAsset) => `${region} ${path}`;

  const trim = () => {
    for (const key of pending.keys()) {
      if (pending.size <= maxPending) return;
      pending.delete(key);
      dropped += 1;
    }
  };

  /** Puts unwritten records back, before those that came in the meantime. */
  const putBack = (unwritten: DeliveredAsset[]) => {
    const newer = pending;
    pending = new Map();
    newest = null;
    for (const delivery of unwritten) {
      const again = newer.get(keyOf(delivery));
      if (again) again.atMs = Math.min(again.atMs, delivery.atMs);
      else pending.set(keyOf(delivery), delivery);
    }
    for (const [key, delivery] of newer) pending.set(key, delivery);
    trim();
  };

  const writePending = async () => {
    const taken = [...pending.values()];
    pending = new Map();
    newest = null;
    for (let from = 0; from < taken.length; from += BATCH) {
      try {
        await assets.record(taken.slice(from, from + BATCH), keep);
      } catch (error) {
        putBack(taken.slice(from));
        if (!failing) logger.warn(toldOf(error), 'The request log could not be written; it is kept and tried again.');
        failing = true;
        return;
      }
      // Others get their turn between two transactions.
      if (from + BATCH < taken.length) await new Promise((resolve) => setImmediate(resolve));
    }
    if (failing) logger.info('The request log is written again.');
    failing = false;
  };

  const flush = async (): Promise<void> => {
    while (flushing !== null) await flushing;
    if (dropped > droppedAndTold) {
      logger.warn({ dropped: dropped - droppedAndTold }, 'The request log was full; its oldest entries were dropped.');
      droppedAndTold = dropped;
    }
    if (pending.size === 0) return;
    flushing = writePending();
    await flushing.finally(() => {
      flushing = null;
    });
  };

  return {
    record(delivery) {
      // What is in demand comes many times in a row: then there is nothing to look up and nothing to move.
      if (newest !== null && newest.path === delivery.path && newest.region === delivery.region) {
        newest.bytes = delivery.bytes;
        newest.cacheStatus = delivery.cacheStatus;
        return;
      }
      const key = keyOf(delivery);
      const earlier = pending.get(key);
      if (earlier) {
        // The latest request decides; the first one dates the record.
        earlier.bytes = delivery.bytes;
        earlier.cacheStatus = delivery.cacheStatus;
        pending.delete(key);
        pending.set(key, earlier);
        newest = earlier;
        return;
      }
      newest = { ...delivery };
      pending.set(key, newest);
      if (pending.size > maxPending) trim();
    },

    flush,

    start() {
      // Not awaited: `flush` reports its own failures, and waits for the one before.
      timer ??= setInterval(() => void flush(), flushMs);
      timer.unref();
    },

    async stop() {
      if (timer) clearInterval(timer);
      timer = null;
      await flush();
      if (pending.size > 0) {
        logger.error({ lost: pending.size }, 'The request log could not be written before the end; it is lost.');
      }
    },

    get stats() {
      return { pending: pending.size, dropped };
    },
  };
}
