import type { Pool, PoolClient } from 'pg';

/** The callback of the pool. */
type Given = (error: Error | undefined, client: PoolClient | undefined, done: (release?: unknown) => void) => void;

/** How many calls the pace is averaged over: more than one turn of the event loop serves. */
const PACE_OF_CALLS = 32;

/**
 * Watches the calls that wait for a connection of a pool, including single queries, for which the pool calls itself.
 * @returns the probable wait of a new call, in milliseconds; see `Repositories.waitMs`
 */
export function watchConnectionWaits(pool: Pool): () => number {
  /** In the order of arrival, in which the pool serves them. */
  const waiting = new Set<{ sinceMs: number }>();
  /** The average time from one served call to the next, while calls waited. */
  let paceMs = 0;
  /** When a call was last served, while calls wait. */
  let servedMs = 0;
  const ask = pool.connect.bind(pool) as (given: Given) => void;

  const connect = (given: Given): void => {
    const call = { sinceMs: performance.now() };
    if (waiting.size === 0) servedMs = call.sinceMs;
    waiting.add(call);
    ask((...got) => {
      const nowMs = performance.now();
      waiting.delete(call);
      paceMs += (nowMs - servedMs - paceMs) / PACE_OF_CALLS;
      servedMs = nowMs;
      given(...got);
    });
  };
  pool.connect = ((given?: Given) => {
    if (given) return connect(given);
    return new Promise<PoolClient>((resolve, reject) => {
      connect((error, client) => (client ? resolve(client) : reject(error)));
    });
  }) as typeof pool.connect;

  return () => {
    for (const { sinceMs } of waiting) return Math.max(performance.now() - sinceMs, waiting.size * paceMs);
    return 0;
  };
}
