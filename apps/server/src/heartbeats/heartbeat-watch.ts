/** Something that tells that it lives by counting up. */
export interface CountedHeartbeat {
  id: string;
  beat: number;
}

/** Tells by the watcher's own monotonic clock who still counts: other clocks jump and disagree. */
export interface HeartbeatWatch {
  /** Takes note of the beats as they stand now. What is not in the list is forgotten. */
  observe(all: readonly CountedHeartbeat[]): void;
  /**
   * Milliseconds, as of the latest look, for which the watcher has looked on and the beat stood still; 0 when it is first seen.
   * Null for an id that was not in the list.
   */
  silentMs(id: string): number | null;
  /** The same with the time in which the watcher itself did not look. */
  goneMs(id: string): number | null;
}

/**
 * Makes a {@link HeartbeatWatch}. Somebody seen for the first time has the benefit of the doubt.
 * @param now in milliseconds
 * @param maxGapMs of the time between two looks, no more than this counts as silence: after a stop of the watcher, or of the whole
 *   machine, those who are watched need a moment to beat again
 */
export function createHeartbeatWatch(now: () => number, { maxGapMs = Number.POSITIVE_INFINITY } = {}): HeartbeatWatch {
  let seen = new Map<string, { beat: number; at: number; silentMs: number }>();
  let lastLook = now();
  return {
    observe(all) {
      const at = now();
      const passedMs = Math.min(at - lastLook, maxGapMs);
      lastLook = at;
      seen = new Map(
        all.map(({ id, beat }) => {
          const before = seen.get(id);
          if (before?.beat !== beat) return [id, { beat, at, silentMs: 0 }];
          return [id, { ...before, silentMs: before.silentMs + passedMs }];
        }),
      );
    },
    silentMs: (id) => seen.get(id)?.silentMs ?? null,
    goneMs(id) {
      const last = seen.get(id);
      return last ? now() - last.at : null;
    },
  };
}
