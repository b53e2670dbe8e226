/** Has tasks of one key run one after another, in the order of arrival; those of other keys do not wait. */
export interface KeyedLock {
  /**
   * @param task is given a signal that is aborted where the lock is lost while it runs: from then on another process may have it, and may
   * have had it for seconds. What cannot be undone is not to be begun any more, and begins with `confirm`.
   */
  run<T>(key: string, task: (lost: AbortSignal, confirm: ConfirmLock) => Promise<T>): Promise<T>;
}

/**
 * Makes sure that the lock is still held, and was since the task began; directly before what cannot be undone.
 * @throws AppError `unavailable` where it is lost, or nobody can say; after seconds at most
 */
export type ConfirmLock = () => Promise<void>;

/** A lock within this process, which is never lost. Nothing is kept of a key that nobody holds or waits for. */
export function createKeyedLock(): KeyedLock {
  const { signal: lost } = new AbortController();
  const confirm = async () => undefined;
  const tails = new Map<string, Promise<unknown>>();
  return {
    async run(key, task) {
      const before = tails.get(key);
      const begin = () => task(lost, confirm);
      // Whether the task before succeeded is its caller's affair.
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
