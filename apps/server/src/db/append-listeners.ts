/** Those of this process who wait for events to be appended. */
export interface AppendListeners {
  /** Calls each of them soon, and once where it is asked for again before that. */
  wake(): void;
  /** @returns ends it */
  add(listener: () => void): () => void;
}

export function createAppendListeners(): AppendListeners {
  const listeners = new Set<() => void>();
  let waking = false;
  return {
    wake() {
      if (waking || listeners.size === 0) return;
      waking = true;
      setImmediate(() => {
        waking = false;
        for (const listener of listeners) listener();
      });
    },
    add(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}
