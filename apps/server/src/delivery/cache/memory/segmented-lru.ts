import { LRUCache } from 'lru-cache';

/** A cache of two segments: newcomers, and regulars that were asked for again. */
export interface SegmentedLru<V> {
  /** The entry, which becomes a regular by being asked for. */
  get(key: string): V | undefined;
  /** Whether it is there; touches nothing. */
  has(key: string): boolean;
  /** Puts an entry in; in the place of one that is a regular it is one, too. */
  set(key: string, entry: V): void;
  delete(key: string): void;
  entries(): Iterable<[key: string, entry: V]>;
  clear(): void;
  /** Entries that had to go for others. */
  readonly evictions: number;
  readonly bytes: number;
  readonly size: number;
}

/** Part of the whole that regulars may keep newcomers out of. */
const REGULARS_SHARE = 0.75;

/**
 * A segmented LRU bounded by bytes. An entry comes in among the newcomers and moves up to the regulars when it is asked for again; what
 * must go goes from the newcomers first. So one walk over many entries can't flush what is in use, while newcomers may use all the
 * room that regulars leave, up to their own bound.
 * @param options.sizeOf what an entry takes, in bytes
 * @param options.newcomersMaxBytes where callers can make newcomers up at will: what these take at most
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
    // From the one that was not asked for longest.
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
