import { PIECE_BYTES } from '@mds/contract';
import { LRUCache } from 'lru-cache';
import type { VerifiedBuffer } from '../verified-body.ts';

/** What an entry costs beside its bytes: key, list links, the Buffer object. Keeps a million tiny objects honest. */
const ENTRY_OVERHEAD_BYTES = 512;
/** Part of the tier that objects asked for more than once may keep newcomers out of. */
const REGULARS_SHARE = 0.75;
/** An object larger than this part of the tier would push out too many others. */
const LARGEST_SHARE = 1 / 8;
/** What is larger than a piece is read from the disk piece by piece: no answer may hold more of it in memory. */
const LARGEST_BYTES = PIECE_BYTES;

/** Objects in memory, by the SHA-256 of their content. */
export interface MemoryTier {
  /** Whether an object of this size may enter. */
  admits(bytes: number): boolean;
  /** The object, which becomes the most recently used one. */
  get(sha256: string): VerifiedBuffer | undefined;
  /** Whether it is there; touches nothing. */
  has(sha256: string): boolean;
  /** @param owner what it goes with when {@link dropOwned} is called: the medium that it is of */
  put(sha256: string, body: VerifiedBuffer, owner: string): void;
  drop(sha256: string): void;
  dropOwned(owner: string): void;
  clear(): void;
  /** Objects that had to go for others. */
  readonly evictions: number;
  readonly bytes: number;
  readonly entries: number;
  readonly maxBytes: number;
}

interface Entry {
  sha256: string;
  owner: string;
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
  let evictions = 0;
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
    admits: (bytes) => bytes <= LARGEST_BYTES && bytes + ENTRY_OVERHEAD_BYTES <= maxBytes * LARGEST_SHARE,

    get(sha256) {
      const regular = regulars.get(sha256);
      if (regular) return regular.body;
      const newcomer = newcomers.get(sha256);
      if (newcomer) promote(newcomer);
      return newcomer?.body;
    },

    has: (sha256) => regulars.has(sha256) || newcomers.has(sha256),

    put(sha256, body, owner) {
      if (regulars.has(sha256)) return;
      newcomers.set(sha256, { sha256, body, owner });
      while (total() > maxBytes && (newcomers.pop() ?? regulars.pop())) evictions += 1;
    },

    drop(sha256) {
      newcomers.delete(sha256);
      regulars.delete(sha256);
    },

    dropOwned(owner) {
      for (const segment of [newcomers, regulars]) {
        for (const [sha256, entry] of [...segment.entries()]) if (entry.owner === owner) segment.delete(sha256);
      }
    },

    clear() {
      newcomers.clear();
      regulars.clear();
    },

    get evictions() {
      return evictions;
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
