/** Runs what it is given, so many at a time, in the order in which it was handed over. */
export type Limit = <T>(work: () => Promise<T>) => Promise<T>;

/** {@link Limit} of `count`, at least 1; Infinity: all at once. */
export function atMost(count: number): Limit {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async (work) => {
    if (running >= count) await new Promise<void>((resolve) => waiting.push(resolve));
    else running++;
    try {
      return await work();
    } finally {
      // Whoever is next takes the place over, so that nobody who comes now slips in between.
      const next = waiting.shift();
      if (next === undefined) running--;
      else next();
    }
  };
}
