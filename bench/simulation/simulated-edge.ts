import { LARGEST_SHARE } from '../../apps/server/src/delivery/cache/disk/disk-folder.ts';
import { createFolderIndex, type FolderEntry } from '../../apps/server/src/delivery/cache/disk/folder-index.ts';
import { createMemoryTier } from '../../apps/server/src/delivery/cache/memory/memory-tier.ts';
import { RUN_PIECES } from '../../apps/server/src/delivery/cache/origin/origin-run.ts';
import type { OwnedObject } from '../../apps/server/src/delivery/verified-body.ts';
import { pieceCount, pieceLength, type VerifiedBuffer } from '../../apps/server/src/delivery/verified-body.ts';

/** The tier that answered. */
export type Tier = 'memory' | 'disk' | 'origin';

/** The cache of a point of presence without bytes: the service's own tiers with their rules of admission and eviction. */
export interface SimulatedEdge {
  deliver(owned: OwnedObject): Tier;
  purge(mediaId: string): void;
  /** The number of requests that the origin got. */
  readonly originRequests: number;
}

/** The size of the caches of a point of presence in bytes: `MDS_CACHE_BYTES` and `MDS_MEMORY_CACHE_BYTES`. */
export interface EdgeRoom {
  readonly cacheBytes: number;
  readonly memoryCacheBytes: number;
}

/**
 * Makes a {@link SimulatedEdge} of the service's memory tier and the index of its cache folder. It asks the tiers in the same order as
 * the service, one request after the other.
 */
export function createSimulatedEdge({ cacheBytes, memoryCacheBytes }: EdgeRoom): SimulatedEdge {
  const memory = createMemoryTier(memoryCacheBytes);
  const nothing = () => undefined;
  const folder = createFolderIndex({
    ...{ maxBytes: cacheBytes, isInMemory: memory.has },
    ...{ onEvict: nothing, onSpare: nothing },
  });
  const keyOf = (mediaId: string, sha256: string) => `${mediaId}/${sha256}`;
  let originRequests = 0;

  const fetch = ({ mediaId, object }: OwnedObject): void => {
    originRequests += Math.ceil(pieceCount(object) / RUN_PIECES);
    // Too large for the cache: passed through.
    if (object.bytes > cacheBytes * LARGEST_SHARE) return;
    const key = keyOf(mediaId, object.sha256);
    const entry: FolderEntry = { mediaId, sha256: object.sha256, bytes: 0, touchedMs: 0 };
    folder.use(key, entry);
    for (let piece = 0; piece < pieceCount(object); piece += 1) folder.grow(key, entry, pieceLength(object, piece));
  };

  const readFromDisk = (owned: OwnedObject): Tier => {
    const key = keyOf(owned.mediaId, owned.object.sha256);
    const entry = folder.get(key);
    if (entry === undefined) {
      fetch(owned);
      return 'origin';
    }
    folder.use(key, entry);
    return 'disk';
  };

  return {
    deliver(owned) {
      const { mediaId, object } = owned;
      if (memory.get(object.sha256)) return 'memory';
      const tier = readFromDisk(owned);
      if (memory.admits(object.bytes)) memory.put(object.sha256, bodyOf(object.bytes), mediaId);
      return tier;
    },

    purge(mediaId) {
      memory.dropOwned(mediaId);
      for (const [key, entry] of folder.entries()) if (entry.mediaId === mediaId) folder.remove(key, entry);
    },

    get originRequests() {
      return originRequests;
    },
  };
}

/** Replaces a body: the tier only reads its length. */
function bodyOf(length: number): VerifiedBuffer {
  return { length } as VerifiedBuffer;
}
