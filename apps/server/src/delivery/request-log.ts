import type { Logger } from 'pino';
import type { AssetRepository, DeliveredAsset } from '../db/delivery-repository.ts';
import { errorFields } from './object-origin.ts';

/** Successful deliveries on their way into the asset records. */
export interface RequestLog {
  /** Notes a delivery, which is written later. */
  record(delivery: DeliveredAsset): void;
  /** Writes everything noted so far. Also resolves if the database fails: the records are kept and tried again. */
  flush(): Promise<void>;
  start(): void;
  /** Writes what is left and stops. */
  stop(): Promise<void>;
  readonly stats: RequestLogStats;
}

export interface RequestLogStats {
  pending: number;
  /** Paths dropped for lack of room since the start. */
  dropped: number;
}

/** Records in one transaction: a few milliseconds of the event loop. */
const BATCH = 200;

/**
 * Makes the request log of a point of presence. It is written every `flushMs`, with one record for each path however often it was
 * requested. If there are more than `maxPending` paths, those requested longest ago are dropped.
 * @param deps.keep number of asset records that the database keeps for a region
 */
export function createRequestLog(deps: {
  assets: Pick<AssetRepository, 'record'>;
  keep?: number;
  flushMs?: number;
  maxPending?: number;
  logger: Pick<Logger, 'warn' | 'info' | 'error'>;
}): RequestLog {
  const { assets, logger, keep = 10_000, flushMs = 500, maxPending = 10_000 } = deps;
  /** By region and path, in order of the latest request. */
  let pending = new Map<string, DeliveredAsset>();
  /** The last one of `pending`. A path that is requested repeatedly need not be moved there again. */
  let newest: DeliveredAsset | null = null;
  let dropped = 0;
  let droppedAndLogged = 0;
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

  /** Puts unwritten records back, before those noted meanwhile. */
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
        if (!failing) logger.warn(errorFields(error), 'the request log could not be written and is tried again');
        failing = true;
        return;
      }
      // Other work runs between two transactions.
      if (from + BATCH < taken.length) await new Promise((resolve) => setImmediate(resolve));
    }
    if (failing) logger.info('the request log is written again');
    failing = false;
  };

  const flush = async (): Promise<void> => {
    while (flushing !== null) await flushing;
    if (dropped > droppedAndLogged) {
      logger.warn({ dropped: dropped - droppedAndLogged }, 'the request log was full, its oldest entries were dropped');
      droppedAndLogged = dropped;
    }
    if (pending.size === 0) return;
    flushing = writePending();
    await flushing.finally(() => {
      flushing = null;
    });
  };

  return {
    record(delivery) {
      // A path in demand comes many times in a row. Then nothing has to be looked up or moved.
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
      // Not awaited: `flush` logs its own failures, and waits for the one before.
      timer ??= setInterval(() => void flush(), flushMs);
      timer.unref();
    },

    async stop() {
      if (timer) clearInterval(timer);
      timer = null;
      await flush();
      if (pending.size > 0) {
        logger.error({ lost: pending.size }, 'the request log could not be written before the end and is lost');
      }
    },

    get stats() {
      return { pending: pending.size, dropped };
    },
  };
}
