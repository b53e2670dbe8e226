import { type FileHandle, open } from 'node:fs/promises';
import type { CacheStatus } from '@mds/contract';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import type { ObjectStore } from '../storage/object-store.ts';
import type { MemoryTier } from './memory-tier.ts';
import {
  asVerifiedFile,
  type ExpectedObject,
  ObjectDamagedError,
  type VerifiedBuffer,
  type VerifiedFile,
  verifyBuffer,
  verifyFile,
} from './verified-body.ts';

/** A verified object and how the cache came by it: decided here, once, for header, request log and metric alike. */
export interface FoundObject {
  body: VerifiedBuffer | VerifiedFile;
  cacheStatus: CacheStatus;
  /** Whether the cache holds it from now on. */
  stored: boolean;
  /** Whether it shared the read that another request had begun (RFC 9211, 2.7). */
  collapsed: boolean;
}

/** The cache tiers over the object store. */
export interface ObjectCache {
  /** The object if it is in memory. */
  hit(object: ExpectedObject): VerifiedBuffer | undefined;
  /** Whether a request for the object would be a hit; reads nothing. */
  holds(object: ExpectedObject): boolean;
  /**
   * The object from the nearest tier that has it. Requests that miss it at the same time share one read, which goes on
   * when the one who began it leaves. A file in the answer is the caller's to close.
   * @throws ObjectDamagedError where the stored object is missing or not what was recorded
   */
  fetch(object: ExpectedObject): Promise<FoundObject>;
  drop(object: ExpectedObject): void;
  /** Reads of the store for objects that entered the memory tier, and whole passes over those too large for it. */
  readonly reads: number;
  readonly damaged: number;
}

/** How long a damaged object is not read again, so that its readers can't keep the disk and the log busy. */
const DAMAGED_MS = 1000;

export function createObjectCache(deps: {
  store: Pick<ObjectStore, 'readAll' | 'localFile'>;
  memory: MemoryTier;
  logger: Pick<Logger, 'error'>;
}): ObjectCache {
  const { store, memory, logger } = deps;
  const fills = new Map<string, Promise<VerifiedBuffer>>();
  const passes = new Map<string, Promise<void>>();
  /** Files that were read through and found right, as they were then. */
  const passed = new LRUCache<string, string>({ max: 10_000 });
  const damaged = new LRUCache<string, ObjectDamagedError>({ max: 1000, ttl: DAMAGED_MS });
  let reads = 0;
  let damagedCount = 0;

  const identify = (object: ExpectedObject) => `${object.key} ${object.sha256}`;

  /** Tells the operator of a damaged object, once for all who asked for it in this moment. */
  const report = (error: unknown): unknown => {
    if (!(error instanceof ObjectDamagedError) || damaged.has(identify(error.object))) return error;
    damagedCount += 1;
    damaged.set(identify(error.object), error);
    logger.error(
      { event: 'object_corrupt', objectKey: error.object.key, err: error },
      `${error.message} It is not delivered. Have it made again: \`mds doctor --repair\`.`,
    );
    return error;
  };

  /** One reading for all who want it at the same time. It belongs to none of them: it goes on when its first one leaves. */
  const once = <T>(running: Map<string, Promise<T>>, id: string, read: () => Promise<T>): Promise<T> => {
    const begun = running.get(id);
    if (begun !== undefined) return begun;
    reads += 1;
    const reading = read().finally(() => running.delete(id));
    running.set(id, reading);
    return reading;
  };

  const fill = async (object: ExpectedObject): Promise<VerifiedBuffer> => {
    const bytes = await store.readAll(object.key);
    if (bytes === null) throw new ObjectDamagedError(object, 'is missing');
    const body = await verifyBuffer(bytes, object);
    memory.put(object.sha256, body);
    return body;
  };

  /** Opens an object that is too large for memory; reads it through first unless this very file was found right before. */
  const openLarge = async (object: ExpectedObject): Promise<VerifiedFile> => {
    const handle = await openLocally(store, object);
    try {
      const found = await fileState(handle);
      if (passed.get(identify(object)) !== found) {
        await once(passes, `${identify(object)} ${found}`, async () => {
          await verifyFile(handle, object);
          if ((await fileState(handle)) !== found) throw new ObjectDamagedError(object, 'changed while it was read');
          passed.set(identify(object), found);
        });
      }
      return asVerifiedFile(handle);
    } catch (error) {
      await handle.close();
      throw error;
    }
  };

  return {
    hit: ({ sha256 }) => memory.get(sha256),
    holds: ({ sha256 }) => memory.has(sha256),

    async fetch(object) {
      const body = memory.get(object.sha256);
      if (body) return { body, cacheStatus: 'HIT', stored: true, collapsed: false };
      const known = damaged.get(identify(object));
      if (known) throw known;
      try {
        if (!memory.admits(object.bytes)) {
          return { body: await openLarge(object), cacheStatus: 'MISS', stored: false, collapsed: false };
        }
        const collapsed = fills.has(identify(object));
        const filled = await once(fills, identify(object), () => fill(object));
        return { body: filled, cacheStatus: 'MISS', stored: true, collapsed };
      } catch (error) {
        throw report(error);
      }
    },

    drop({ sha256 }) {
      memory.drop(sha256);
    },

    get reads() {
      return reads;
    },
    get damaged() {
      return damagedCount;
    },
  };
}

async function openLocally(store: Pick<ObjectStore, 'localFile'>, object: ExpectedObject): Promise<FileHandle> {
  const local = await store.localFile(object.key);
  if (local === null) throw new ObjectDamagedError(object, 'is missing');
  try {
    return await open(local.path, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') throw new ObjectDamagedError(object, 'is missing');
    throw error;
  } finally {
    // An open file outlives its name.
    await local.release();
  }
}

/** Changes whenever the file is another one or its content was written to. */
async function fileState(handle: FileHandle): Promise<string> {
  const { dev, ino, size, mtimeNs, ctimeNs } = await handle.stat({ bigint: true });
  return `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`;
}
