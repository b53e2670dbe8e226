/** Between two lines of the log about the same thing: it may happen thousands of times each second. */
const TELL_EVERY_MS = 1_000;

/** Sums up what happens often, for a log that people read. */
export interface SummaryLine<T> {
  note(latest: T): void;
}

/**
 * {@link SummaryLine}: the first one is told at once, the rest once a second.
 * @param tell writes a line: how many there were since the one before, and the latest of them
 */
export function createSummaryLine<T>(tell: (count: number, latest: T) => void): SummaryLine<T> {
  let count = 0;
  let latest: T | undefined;
  let telling = false;

  const tellNow = () => {
    const one = latest;
    telling = count > 0 && one !== undefined;
    if (!telling || one === undefined) return;
    tell(count, one);
    count = 0;
    latest = undefined;
    setTimeout(tellNow, TELL_EVERY_MS).unref();
  };

  return {
    note(one) {
      count += 1;
      latest = one;
      if (!telling) setTimeout(tellNow, 0).unref();
      telling = true;
    },
  };
}
