import type { Pool, PoolClient } from 'pg';

/** What the pool calls back with. */
type Given = (error: Error | undefined, client: PoolClient | undefined, done: (release?: unknown) => void) => void;

/** Of how many calls the pace is that of: so many that one turn of the event loop, in which several are served at once, does not decide. */
const PACE_OF_CALLS = 32;

/**
 * Watches the calls that wait for a connection of a pool, those of single queries among them, for which the pool asks itself.
 * @returns how long a call that comes now will probably wait, in milliseconds; see `Repositories.waitMs`
 */
export function watchConnectionWaits(pool: Pool): () => number {
  /** In the order in which they came, which is the one in which the pool serves them. */
  const waiting = new Set<{ sinceMs: number }>();
  /** How long it took from one call that was served to the next, while there were any, on average. */
  let paceMs = 0;
  /** Since when calls have waited and none was served; only while there are any. */
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
