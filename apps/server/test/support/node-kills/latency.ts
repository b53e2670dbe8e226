import type { Fleet } from './fleet.ts';

/** How quickly the running apis answer the simplest request. */
export interface LatencyWatch {
  /** Whether one of them was slow at any time between these two instants of the monotonic clock. */
  wasSlow(fromMs: number, toMs: number): boolean;
  readonly longestMs: number;
  stop(): Promise<void>;
}

const INTERVAL_MS = 250;
/** A point of presence that gave its origin up allows it so long to report that it is ready. */
const SLOW_MS = 1_000;
/** A point of presence that gave its origin up asks it every second. */
const AFTERWARDS_MS = 2_500;

/**
 * Asks the apis all the time. Six processes share two cores, and up to three of them start at a time. If a node gets no processor time for
 * seconds, a point of presence is right to answer 503 with Retry-After, and no killed node has lost the request.
 */
export function watchLatency(fleet: Fleet): LatencyWatch {
  const slow: { fromMs: number; toMs: number }[] = [];
  const open = new Set<{ fromMs: number; done: Promise<void> }>();
  let longestMs = 0;
  let lastMs = performance.now();
  const measure = async (url: string, fromMs: number) => {
    // A node that is killed meanwhile does not count.
    const answered = await fetch(`${url}/readyz`).then(
      (answer) => answer.arrayBuffer(),
      () => null,
    );
    const toMs = performance.now();
    if (answered === null) return;
    longestMs = Math.max(longestMs, toMs - fromMs);
    if (toMs - fromMs >= SLOW_MS) slow.push({ fromMs, toMs });
  };
  const timer = setInterval(() => {
    // The balancer is in this process: requests wait while this process does.
    const now = performance.now();
    if (now - lastMs >= SLOW_MS) slow.push({ fromMs: lastMs, toMs: now });
    longestMs = Math.max(longestMs, now - lastMs - INTERVAL_MS);
    lastMs = now;
    for (const { url, isUp } of fleet.of('api')) {
      if (!isUp) continue;
      const fromMs = performance.now();
      const request = { fromMs, done: measure(url, fromMs).finally(() => open.delete(request)) };
      open.add(request);
    }
  }, INTERVAL_MS);

  return {
    wasSlow(fromMs, toMs) {
      const now = performance.now();
      const late = [...open].filter((request) => now - request.fromMs >= SLOW_MS);
      return [...slow, ...late.map((request) => ({ ...request, toMs: now }))].some(
        (period) => period.fromMs <= toMs && period.toMs + AFTERWARDS_MS >= fromMs,
      );
    },
    get longestMs() {
      return longestMs;
    },
    async stop() {
      clearInterval(timer);
      await Promise.all([...open].map(({ done }) => done));
    },
  };
}
