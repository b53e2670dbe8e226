/** Time between two log lines about the same thing, which may happen thousands of times a second. */
const LOG_EVERY_MS = 1_000;

/** Sums up frequent events for a log that people read. */
export interface SummaryLine<T> {
  note(latest: T): void;
}

/**
 * Makes a {@link SummaryLine}: the first event is logged at once, later ones once a second.
 * @param log writes a line: the number of events since the last line, and the latest event
 */
export function createSummaryLine<T>(log: (count: number, latest: T) => void): SummaryLine<T> {
  let count = 0;
  let latest: T | undefined;
  let isScheduled = false;

  const logNow = () => {
    const one = latest;
    isScheduled = count > 0 && one !== undefined;
    if (!isScheduled || one === undefined) return;
    log(count, one);
    count = 0;
    latest = undefined;
    setTimeout(logNow, LOG_EVERY_MS).unref();
  };

  return {
    note(one) {
      count += 1;
      latest = one;
      if (!isScheduled) setTimeout(logNow, 0).unref();
      isScheduled = true;
    },
  };
}
