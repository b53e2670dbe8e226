import { LRUCache } from 'lru-cache';

/** Room of what was asked for more than once, and of what was not yet. */
const REGULAR_BYTES = 14 * 1024 * 1024;
const NEWCOMER_BYTES = 2 * 1024 * 1024;

/** Answers by what decides them: the host and the target. */
export interface ReadCache<T> {
  /** The entry, which stays the longer for having been asked for. */
  get(key: string): T | undefined;
  set(key: string, entry: T): void;
  delete(key: string): void;
  entries(): Iterable<[key: string, entry: T]>;
}

/**
 * A segmented LRU bounded by bytes. Hosts and cursors are made up by callers at will: whoever asks for ever new ones pushes out what was
 * asked for once, and never what is in use.
 * @param sizeOf what an entry takes, in bytes
 */
export function createReadCache<T extends object>(sizeOf: (entry: T, key: string) => number): ReadCache<T> {
  const segment = (maxSize: number) => new LRUCache<string, T>({ maxSize, sizeCalculation: sizeOf });
  const [newcomers, regulars] = [segment(NEWCOMER_BYTES), segment(REGULAR_BYTES)];
  return {
    get(key) {
      const regular = regulars.get(key);
      if (regular !== undefined) return regular;
      const newcomer = newcomers.get(key);
      if (newcomer === undefined) return undefined;
      newcomers.delete(key);
      regulars.set(key, newcomer);
      return newcomer;
    },

    set(key, entry) {
      (regulars.has(key) ? regulars : newcomers).set(key, entry);
    },

    delete(key) {
      newcomers.delete(key);
      regulars.delete(key);
    },

    *entries() {
      yield* newcomers.entries();
      yield* regulars.entries();
    },
  };
}
