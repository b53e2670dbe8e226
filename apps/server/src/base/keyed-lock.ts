/** Runs the tasks of one key one after another, in the order of arrival. Tasks of other keys do not wait. */
export interface KeyedLock {
  /**
   * @param task gets a signal that is aborted if the lock is lost while the task runs. Another process may have held the lock for
   * seconds by then. The task must call `confirm` directly before each step that cannot be undone.
   */
  run<T>(key: string, task: (lost: AbortSignal, confirm: ConfirmLock) => Promise<T>): Promise<T>;
}

/**
 * Verifies that the lock was held since the task began. Called directly before a step that cannot be undone.
 * @throws AppError `unavailable` within seconds if the lock is lost, or if its state cannot be determined
 */
export type ConfirmLock = () => Promise<void>;

/** A lock within this process, which is never lost. A key that is not held or waited for uses no memory. */
export function createKeyedLock(): KeyedLock {
  const { signal: lost } = new AbortController();
  const confirm = async () => undefined;
  const tails = new Map<string, Promise<unknown>>();
  return {
    async run(key, task) {
      const before = tails.get(key);
      const begin = () => task(lost, confirm);
      // The failure of the previous task concerns only its own caller.
      const mine = before === undefined ? begin() : before.then(begin, begin);
      tails.set(key, mine);
      try {
        return await mine;
      } finally {
        if (tails.get(key) === mine) tails.delete(key);
      }
    },
  };
}
