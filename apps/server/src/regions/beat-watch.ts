/** Something that tells that it lives by counting up. */
export interface Beating {
  id: string;
  beat: number;
}

/** Tells by the watcher's own monotonic clock who still counts: other clocks jump and disagree. */
export interface BeatWatch {
  /** Takes note of the beats as they stand now. What is not in the list is forgotten. */
  observe(all: readonly Beating[]): void;
  /** Milliseconds since the beat was last seen to change; 0 when it is first seen. Null for an id that was not in the list. */
  silentMs(id: string): number | null;
}

/** Makes a {@link BeatWatch}. Somebody seen for the first time has the benefit of the doubt. @param now in milliseconds */
export function createBeatWatch(now: () => number): BeatWatch {
  let seen = new Map<string, { beat: number; at: number }>();
  return {
    observe(all) {
      const at = now();
      seen = new Map(
        all.map(({ id, beat }) => {
          const before = seen.get(id);
          return [id, before?.beat === beat ? before : { beat, at }];
        }),
      );
    },
    silentMs(id) {
      const last = seen.get(id);
      return last ? now() - last.at : null;
    },
  };
}
