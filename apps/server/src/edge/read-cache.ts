import { createSegmentedLru, type SegmentedLru } from '../delivery/cache/memory/segmented-lru.ts';

const MAX_BYTES = 16 * 1024 * 1024;
/** Hosts and cursors are made up by callers at will: whoever asks for ever new ones pushes out what was asked for once. */
const NEWCOMERS_BYTES = 2 * 1024 * 1024;

/**
 * Read-API answers by what decides them: the host and the target.
 * @param sizeOf what an entry takes, in bytes
 */
export function createReadCache<T extends object>(sizeOf: (entry: T, key: string) => number): SegmentedLru<T> {
  return createSegmentedLru({ maxBytes: MAX_BYTES, newcomersMaxBytes: NEWCOMERS_BYTES, sizeOf });
}
