import { PIECE_BYTES } from '@mds/contract';
import { LRUCache } from 'lru-cache';
import type { ByteRange } from '../../byte-ranges.ts';
import {
  type ExpectedObject,
  firstPieceOf,
  lastPieceOf,
  pieceCount,
  type VerifiedBuffer,
  type VerifiedRun,
} from '../../verified-body.ts';
import { createSegmentedLru } from './segmented-lru.ts';

/** Memory that an entry takes beside its bytes: key, list links, the Buffer object. It bounds a million tiny objects, too. */
const ENTRY_OVERHEAD_BYTES = 512;
/** A piece larger than this part of the tier would push out too many others. */
const LARGEST_SHARE = 1 / 8;
/** Pieces that one answer may hold in memory. Larger answers are read from the disk piece by piece. */
const MAX_RUN_PIECES = 8;

/** Verified pieces in memory, by the SHA-256 of their object and their index. An object of at most a piece is its piece 0. */
export interface MemoryTier {
  /** Whether the pieces of an object of this size may enter. */
  admits(bytes: number): boolean;
  /**
   * Whether to read the pieces of a large object into memory: an answer may hold them, and each was asked for a short while ago.
   * So reading a film once evicts nothing.
   */
  wants(object: ExpectedObject, wanted: ByteRange): boolean;
  /** The pieces that hold the wanted bytes, if all of them are there. They become the most recently used ones. */
  find(object: ExpectedObject, wanted: ByteRange): VerifiedRun | undefined;
  /** As {@link find}, for one piece. */
  get(sha256: string, index?: number): VerifiedBuffer | undefined;
  /** Whether the piece is there. Does not count as a use. */
  has(sha256: string, index?: number): boolean;
  /** @param owner the media object that the piece belongs to, for {@link dropOwned} */
  put(sha256: string, body: VerifiedBuffer, owner: string, index?: number): void;
  /** Removes all pieces of an object. Without its size, every entry is looked at. */
  drop(sha256: string, bytes?: number): void;
  dropOwned(owner: string): void;
  clear(): void;
  /** Entries removed to make room for others. */
  readonly evictions: number;
  readonly bytes: number;
  readonly entries: number;
  readonly maxBytes: number;
}

interface Entry {
  owner: string;
  sha256: string;
  body: VerifiedBuffer;
}

/** Makes a {@link MemoryTier} over a segmented LRU. */
export function createMemoryTier(maxBytes: number): MemoryTier {
  const entries = createSegmentedLru<Entry>({ maxBytes, sizeOf: ({ body }) => body.length + ENTRY_OVERHEAD_BYTES });
  /** Pieces read from the disk lately: as many as the tier could hold. */
  const asked = new LRUCache<string, true>({ max: Math.max(1, Math.ceil(maxBytes / PIECE_BYTES)) });

  const askAgain = (key: string): boolean => {
    const again = asked.has(key);
    asked.set(key, true);
    return again;
  };

  const dropWhere = (applies: (entry: Entry) => boolean): void => {
    for (const [key, entry] of [...entries.entries()]) if (applies(entry)) entries.delete(key);
  };

  return {
    admits: (bytes) => Math.min(bytes, PIECE_BYTES) + ENTRY_OVERHEAD_BYTES <= maxBytes * LARGEST_SHARE,

    wants(object, wanted) {
      const [first, last] = [firstPieceOf(wanted), lastPieceOf(wanted)];
      if (last - first >= MAX_RUN_PIECES || !this.admits(object.bytes)) return false;
      let again = true;
      for (let index = first; index <= last; index += 1) again = askAgain(keyOf(object.sha256, index)) && again;
      return again;
    },

    find({ sha256 }, wanted) {
      const [first, last] = [firstPieceOf(wanted), lastPieceOf(wanted)];
      if (last - first >= MAX_RUN_PIECES) return undefined;
      const pieces: VerifiedBuffer[] = [];
      for (let index = first; index <= last; index += 1) {
        const piece = entries.get(keyOf(sha256, index))?.body;
        if (piece === undefined) return undefined;
        pieces.push(piece);
      }
      return { start: first * PIECE_BYTES, pieces };
    },

    get: (sha256, index = 0) => entries.get(keyOf(sha256, index))?.body,
    has: (sha256, index = 0) => entries.has(keyOf(sha256, index)),

    put(sha256, body, owner, index = 0) {
      const key = keyOf(sha256, index);
      if (!entries.has(key)) entries.set(key, { body, owner, sha256 });
    },

    drop(sha256, bytes) {
      if (bytes === undefined) dropWhere((entry) => entry.sha256 === sha256);
      else for (let index = 0; index < pieceCount({ bytes }); index += 1) entries.delete(keyOf(sha256, index));
    },

    dropOwned: (owner) => dropWhere((entry) => entry.owner === owner),
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

const keyOf = (sha256: string, index: number) => (index === 0 ? sha256 : `${sha256} ${index}`);
