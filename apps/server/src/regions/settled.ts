/**
 * A state that changes only if two observations in a row agree on the new one. One lost packet or one slow answer is no outage. The first
 * observation counts at once.
 */
export interface Settled<T> {
  /** Adds an observation. @returns the current state */
  observe(state: T): T;
}

/** Makes a {@link Settled} state. */
export function createSettled<T>(): Settled<T> {
  let current: { state: T } | null = null;
  let candidate: { state: T } | null = null;
  return {
    observe(state) {
      const confirmed = current === null || candidate?.state === state;
      if (confirmed) current = { state };
      candidate = { state };
      return current?.state ?? state;
    },
  };
}
