import { PIECE_BYTES } from '@mds/contract';
import type { VerifiedBuffer } from '../../verified-body.ts';
import { createSegmentedLru } from './segmented-lru.ts';

/** What an entry costs beside its bytes: key, list links, the Buffer object. Keeps a million tiny objects honest. */
const ENTRY_OVERHEAD_BYTES = 512;
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
  /** @param owner what it goes with when {@link dropOwned} is called: the media object that it is of */
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
  owner: string;
  body: VerifiedBuffer;
}

/** A {@link createSegmentedLru} of whole objects. */
export function createMemoryTier(maxBytes: number): MemoryTier {
  const entries = createSegmentedLru<Entry>({ maxBytes, sizeOf: ({ body }) => body.length + ENTRY_OVERHEAD_BYTES });

  return {
    admits: (bytes) => bytes <= LARGEST_BYTES && bytes + ENTRY_OVERHEAD_BYTES <= maxBytes * LARGEST_SHARE,
    get: (sha256) => entries.get(sha256)?.body,
    has: entries.has,

    put(sha256, body, owner) {
      if (!entries.has(sha256)) entries.set(sha256, { body, owner });
    },

    drop: entries.delete,

    dropOwned(owner) {
      for (const [sha256, entry] of [...entries.entries()]) if (entry.owner === owner) entries.delete(sha256);
    },

    clear: entries.clear,

    get evictions() {
      return entries.evictions;
    },
    get bytes() {
      return entries.bytes;
    },
    get entries() {
      return entries.size;
    },
    maxBytes,
  };
}
