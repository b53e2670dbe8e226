import { LRUCache } from 'lru-cache';
import type { VerifiedBuffer } from './verified-body.ts';

/** What an entry costs beside its bytes: key, list links, the Buffer object. Keeps a million tiny objects honest. */
const ENTRY_OVERHEAD_BYTES = 512;
/** Part of the tier that objects asked for more than once may keep newcomers out of. */
const REGULARS_SHARE = 0.75;
/** An object larger than this part of the tier would push out too many others. */
const LARGEST_SHARE = 1 / 8;

/** Objects in memory, by the SHA-256 of their content. */
export interface MemoryTier {
  /** Whether an object of this size may enter. */
  admits(bytes: number): boolean;
  /** The object, which becomes the most recently used one. */
  get(sha256: string): VerifiedBuffer | undefined;
  /** Whether it is there; touches nothing. */
  has(sha256: string): boolean;
  put(sha256: string, body: VerifiedBuffer): void;
  drop(sha256: string): void;
  readonly bytes: number;
  readonly entries: number;
  readonly maxBytes: number;
}

interface Entry {
  sha256: string;
  body: VerifiedBuffer;
}

/**
 * A segmented LRU bounded by bytes. An object enters among the newcomers and moves up to the regulars when it is asked
 * for again; what must go goes from the newcomers first. So one walk over many objects can't flush what is in use, while
 * newcomers may use all the room that regulars leave.
 */
export function createMemoryTier(maxBytes: number): MemoryTier {
  const segment = () =>
    new LRUCache<string, Entry>({
      maxSize: Math.max(1, maxBytes),
      sizeCalculation: ({ body }) => body.length + ENTRY_OVERHEAD_BYTES,
    });
  const newcomers = segment();
  const regulars = segment();
  const total = () => newcomers.calculatedSize + regulars.calculatedSize;

  const promote = (entry: Entry) => {
    newcomers.delete(entry.sha256);
    regulars.set(entry.sha256, entry);
    while (regulars.calculatedSize > maxBytes * REGULARS_SHARE) {
      const demoted = regulars.pop();
      if (!demoted) break;
      newcomers.set(demoted.sha256, demoted);
    }
  };

  return {
    admits: (bytes) => bytes + ENTRY_OVERHEAD_BYTES <= maxBytes * LARGEST_SHARE,

    get(sha256) {
      const regular = regulars.get(sha256);
      if (regular) return regular.body;
      const newcomer = newcomers.get(sha256);
      if (newcomer) promote(newcomer);
      return newcomer?.body;
    },

    has: (sha256) => regulars.has(sha256) || newcomers.has(sha256),

    put(sha256, body) {
      if (regulars.has(sha256)) return;
      newcomers.set(sha256, { sha256, body });
      while (total() > maxBytes && (newcomers.pop() ?? regulars.pop()));
    },

    drop(sha256) {
      newcomers.delete(sha256);
      regulars.delete(sha256);
    },

    get bytes() {
      return total();
    },
    get entries() {
      return newcomers.size + regulars.size;
    },
    maxBytes,
  };
}
