import type { Fleet } from './nodes-kill-fleet.ts';

/** How quickly the apis that are there answer the simplest question. */
export interface Pulse {
  /** Whether one of them took long at any time between these two instants of the monotonic clock. */
  wasSlow(fromMs: number, toMs: number): boolean;
  readonly longestMs: number;
  stop(): Promise<void>;
}

const BEAT_MS = 250;
/** What a point of presence gives an origin that it had given up to say that it is back. */
const SLOW_MS = 1_000;
/** A point of presence that gave its origin up looks every second whether it is back. */
const AFTERWARDS_MS = 2_500;

/**
 * Asks them all the while. Six processes on two cores, three of which start anew at a time: where a node gets no processor time for
 * seconds, a point of presence that gives it up with 503 and Retry-After is right, and no request was lost by a killed node.
 */
export function feelPulse(fleet: Fleet): Pulse {
  const slow: { fromMs: number; toMs: number }[] = [];
  const beating = new Set<{ fromMs: number; done: Promise<void> }>();
  let longestMs = 0;
  let beatAtMs = performance.now();
  const ask = async (url: string, fromMs: number) => {
    // Of one that is killed meanwhile it says nothing.
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
    // The balancer is in this process: what it keeps waiting, waits.
    const now = performance.now();
    if (now - beatAtMs >= SLOW_MS) slow.push({ fromMs: beatAtMs, toMs: now });
    longestMs = Math.max(longestMs, now - beatAtMs - BEAT_MS);
    beatAtMs = now;
    for (const { url, isUp } of fleet.of('api')) {
      if (!isUp) continue;
      const fromMs = performance.now();
      const beat = { fromMs, done: ask(url, fromMs).finally(() => beating.delete(beat)) };
      beating.add(beat);
    }
  }, BEAT_MS);

  return {
    wasSlow(fromMs, toMs) {
      const now = performance.now();
      const open = [...beating].filter((beat) => now - beat.fromMs >= SLOW_MS).map((beat) => ({ ...beat, toMs: now }));
      return [...slow, ...open].some((beat) => beat.fromMs <= toMs && beat.toMs + AFTERWARDS_MS >= fromMs);
    },
    get longestMs() {
      return longestMs;
    },
    async stop() {
      clearInterval(timer);
      await Promise.all([...beating].map(({ done }) => done));
    },
  };
}
