import type { ServerResponse } from 'node:http';
import type { ExpectedObject } from '../verified-body.ts';

/** What of the memory tier is held by readers that do not take it, however long the tier has let go of it. */
export interface PinnedMemory {
  /** Notes that a response holds an object, if it still does after everything was handed to the system. */
  watch(response: ServerResponse, object: Pick<ExpectedObject, 'sha256' | 'bytes'>): void;
  /** Whether one more reader may be given the object from memory: it is held anyway, or there is room. */
  allows(sha256: string): boolean;
  readonly bytes: number;
}

/** Makes {@link PinnedMemory}. @param maxBytes beyond which bodies go out piece by piece from the disk */
export function createPinnedMemory(maxBytes: number): PinnedMemory {
  const held = new Map<string, { bytes: number; readers: number }>();
  let total = 0;
  return {
    watch(response, { sha256, bytes }) {
      if (response.writableLength === 0 || response.closed) return;
      const entry = held.get(sha256) ?? { bytes, readers: 0 };
      if (entry.readers === 0) {
        held.set(sha256, entry);
        total += bytes;
      }
      entry.readers += 1;
      response.once('close', () => {
        entry.readers -= 1;
        if (entry.readers > 0) return;
        held.delete(sha256);
        total -= bytes;
      });
    },
    allows: (sha256) => total < maxBytes || held.has(sha256),
    get bytes() {
      return total;
    },
  };
}
