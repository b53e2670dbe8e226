/** Runs work in the order of the calls, up to a limit at a time. */
export type Limit = <T>(work: () => Promise<T>) => Promise<T>;

/** A {@link Limit} of `count`, at least 1; Infinity means no limit. */
export function atMost(count: number): Limit {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async (work) => {
    if (running >= count) await new Promise<void>((resolve) => waiting.push(resolve));
    else running++;
    try {
      return await work();
    } finally {
      // The next in the queue takes the place over, so that no later call can overtake it.
      const next = waiting.shift();
      if (next === undefined) running--;
      else next();
    }
  };
}
