import { createSegmentedLru, type SegmentedLru } from '../delivery/cache/memory/segmented-lru.ts';

const MAX_BYTES = 16 * 1024 * 1024;
/** Callers can invent hosts and cursors. Endless new ones evict only entries that were requested once. */
const NEWCOMERS_BYTES = 2 * 1024 * 1024;

/**
 * Answers of the read API by host and target.
 * @param sizeOf size of an entry in bytes
 */
export function createReadCache<T extends object>(sizeOf: (entry: T, key: string) => number): SegmentedLru<T> {
  return createSegmentedLru({ maxBytes: MAX_BYTES, newcomersMaxBytes: NEWCOMERS_BYTES, sizeOf });
}
