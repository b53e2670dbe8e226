/** Has tasks of one key run one after another, in the order of arrival; those of other keys do not wait. */
export interface KeyedLock {
  run<T>(key: string, task: () => Promise<T>): Promise<T>;
}

/** A lock within this process. Nothing is kept of a key that nobody holds or waits for. */
export function createKeyedLock(): KeyedLock {
  const tails = new Map<string, Promise<unknown>>();
  return {
    async run(key, task) {
      const before = tails.get(key);
      // Whether the task before succeeded is its caller's affair.
      const mine = before === undefined ? task() : before.then(task, task);
      tails.set(key, mine);
      try {
        return await mine;
      } finally {
        if (tails.get(key) === mine) tails.delete(key);
      }
    },
  };
}
