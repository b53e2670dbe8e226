/** Reads a version counter, at most once every {@link MAX_AGE_MS}. */
export interface VersionClock {
  /** The version, not older than {@link MAX_AGE_MS}. Returned at once if it is known. */
  now(): number | Promise<number>;
  /** The version if it is known. Reads nothing. */
  peek(): number | null;
  /** Makes the next {@link now} read again, after a write of this process. */
  reset(): void;
}

/**
 * A version is trusted for this time after it was read. Writes of other processes must show within a second. This is far less, and
 * yet a busy server asks its database 200 times a second instead of 30,000 times.
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
      // Counted from the begin of the reading, because later writes may not be in it.
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
