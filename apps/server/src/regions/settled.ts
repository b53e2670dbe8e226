/**
 * A state that changes only when two observations in a row agree on the new one, so that one lost packet or one slow
 * answer is not reported as an outage. The first observation counts at once.
 */
export interface Settled<T> {
  /** Takes an observation; returns the state that holds now. */
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
