/** Reads a version counter at most once in a turn of the event loop. */
export interface VersionClock {
  /** A version read in this turn: at once where it is known already. */
  now(): number | Promise<number>;
  /** Makes the next {@link now} read again. */
  reset(): void;
}

/**
 * Every request must see the writes that were answered before it came, so every request asks for the version; requests
 * that one turn of the event loop brings have all come before their handlers run, and may share one answer. A write of
 * this very process in between calls `reset`.
 */
export function createVersionClock(read: () => Promise<number>): VersionClock {
  let turn: { version: number | Promise<number> } | null = null;
  return {
    now() {
      if (turn) return turn.version;
      const mine: { version: number | Promise<number> } = { version: 0 };
      mine.version = read().then((version) => {
        mine.version = version;
        return version;
      });
      turn = mine;
      setImmediate(() => {
        if (turn === mine) turn = null;
      });
      return mine.version;
    },

    reset() {
      turn = null;
    },
  };
}
