/** Reads a version counter, at most once in a short while. */
export interface VersionClock {
  /** The version, not older than {@link MAX_AGE_MS}: at once where it is known. */
  now(): number | Promise<number>;
  /** The version if it is known; reads nothing. */
  peek(): number | null;
  /** Makes the next {@link now} read again: after a write of this very process. */
  reset(): void;
}

/**
 * How long a version that was read may be relied on. Writes of other processes have to show within a second; this is
 * far less, and yet a busy server asks its database 200 times a second instead of 30,000 times.
 */
const MAX_AGE_MS = 5;

export function createVersionClock(read: () => Promise<number>): VersionClock {
  let latest: { version: number | Promise<number> } | null = null;
  return {
    now() {
      if (latest) return latest.version;
      const mine: { version: number | Promise<number> } = { version: 0 };
      const forget = () => {
        if (latest === mine) latest = null;
      };
      mine.version = read().then(
        (version) => {
          mine.version = version;
          return version;
        },
        (error: unknown) => {
          forget();
          throw error;
        },
      );
      latest = mine;
      // From when the reading began, as that is what it is true of.
      setTimeout(forget, MAX_AGE_MS).unref();
      return mine.version;
    },

    peek() {
      return typeof latest?.version === 'number' ? latest.version : null;
    },

    reset() {
      latest = null;
    },
  };
}
