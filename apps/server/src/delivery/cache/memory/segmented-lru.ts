import { LRUCache } from 'lru-cache';

/** A cache of two segments: newcomers, and regulars, which were requested again. */
export interface SegmentedLru<V> {
  /** The entry, which becomes a regular by this request. */
  get(key: string): V | undefined;
  /** Whether it is there. Does not count as a use. */
  has(key: string): boolean;
  /** Adds an entry. If it replaces a regular, it is a regular too. */
  set(key: string, entry: V): void;
  delete(key: string): void;
  entries(): Iterable<[key: string, entry: V]>;
  clear(): void;
  /** Entries removed to make room for others. */
  readonly evictions: number;
  readonly bytes: number;
  readonly size: number;
}

/** Share of the cache that is reserved for regulars. */
const REGULARS_SHARE = 0.75;

/**
 * Makes a segmented LRU bounded by bytes. An entry starts among the newcomers and moves to the regulars when it is requested again.
 * Newcomers are evicted first, so that one walk over many entries cannot evict those in use. Newcomers may use all the room that
 * regulars leave, up to their own bound.
 * @param options.sizeOf size of an entry in bytes
 * @param options.newcomersMaxBytes bound of the newcomers, for callers that can be made to add any number of them
 */
export function createSegmentedLru<V extends object>(options: {
  maxBytes: number;
  newcomersMaxBytes?: number;
  sizeOf: (entry: V, key: string) => number;
}): SegmentedLru<V> {
  const { maxBytes, newcomersMaxBytes = maxBytes, sizeOf } = options;
  const segment = (bytes: number) => new LRUCache<string, V>({ maxSize: Math.max(1, bytes), sizeCalculation: sizeOf });
  const [newcomers, regulars] = [segment(newcomersMaxBytes), segment(maxBytes)];
  let evictions = 0;
  const total = () => newcomers.calculatedSize + regulars.calculatedSize;

  const demoteBeyondShare = () => {
    // The least recently used first.
    for (const key of regulars.rkeys()) {
      if (regulars.calculatedSize <= maxBytes * REGULARS_SHARE) return;
      const entry = regulars.peek(key);
      regulars.delete(key);
      if (entry) newcomers.set(key, entry);
    }
  };

  const makeRoom = () => {
    while (total() > maxBytes && (newcomers.pop() ?? regulars.pop())) evictions += 1;
  };

  return {
    get(key) {
      const regular = regulars.get(key);
      if (regular !== undefined) return regular;
      const newcomer = newcomers.get(key);
      if (newcomer === undefined) return undefined;
      newcomers.delete(key);
      regulars.set(key, newcomer);
      demoteBeyondShare();
      return newcomer;
    },

    has: (key) => regulars.has(key) || newcomers.has(key),

    set(key, entry) {
      (regulars.has(key) ? regulars : newcomers).set(key, entry);
      demoteBeyondShare();
      makeRoom();
    },

    delete(key) {
      newcomers.delete(key);
      regulars.delete(key);
    },

    *entries() {
      yield* newcomers.entries();
      yield* regulars.entries();
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
    get size() {
      return newcomers.size + regulars.size;
    },
  };
}
