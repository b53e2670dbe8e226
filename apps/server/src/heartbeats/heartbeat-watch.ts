/** A process or lease whose rising count shows that it is alive. */
export interface CountedHeartbeat {
  id: string;
  beat: number;
}

/** Measures, by the watcher's own monotonic clock, whose count still grows. Other clocks jump and disagree. */
export interface HeartbeatWatch {
  /** Records the current heartbeats. Ids that are not in the list are removed. */
  observe(all: readonly CountedHeartbeat[]): void;
  /**
   * How long the heartbeat did not change while it was observed, in milliseconds at the latest observation; 0 when
   * first seen. Null for an id that was not in the list.
   */
  silentMs(id: string): number | null;
  /** The same, including the time since the latest observation and gaps between observations. */
  goneMs(id: string): number | null;
}

/**
 * Makes a {@link HeartbeatWatch}. An id that is seen for the first time counts as alive.
 * @param now in milliseconds
 * @param maxGapMs at most this much of the time between two observations counts as silence: after a stop of the watcher, or of the whole
 *   machine, the watched need a moment for their next heartbeat
 */
export function createHeartbeatWatch(now: () => number, { maxGapMs = Number.POSITIVE_INFINITY } = {}): HeartbeatWatch {
  let seen = new Map<string, { beat: number; at: number; silentMs: number }>();
  let observedAt = now();
  return {
    observe(all) {
      const at = now();
      const passedMs = Math.min(at - observedAt, maxGapMs);
      observedAt = at;
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
