import type { Purge, PurgeResult } from '@mds/contract';
import type { RequestOptions, Transport } from './transport.ts';

/** How to purge. */
export interface PurgeOptions extends RequestOptions {
  /**
   * Whole seconds, 0 to 30, that the service waits for the nodes to say that they have dropped it; its default is 5. They drop
   * it whether or not somebody waits.
   */
  wait?: number | undefined;
}

/** The operator's part of the caches. */
export interface ControlCache {
  /**
   * Drops something from every tier of the cache of every node in every region: all of a media object (`{ media_id }`), what is at
   * one delivery path (`{ path }`), or `{ everything: true }`. Nothing is lost by it: what is asked for again is fetched again.
   * Resolves with a receipt for each node that is known, also where not every one of them has answered: see `complete`.
   */
  purge(what: Purge, options?: PurgeOptions): Promise<PurgeResult>;
}

/** What the service waits for nodes where it is not told, in seconds. */
const DEFAULT_WAIT_S = 5;

/** Makes {@link ControlCache} over a transport. The seconds that the service waits for nodes are added to the time limit. */
export function createControlCache(transport: Transport): ControlCache {
  return {
    purge: (what, { wait, signal } = {}) => {
      const limitMs = transport.timeoutMs === 0 ? 0 : transport.timeoutMs + (wait ?? DEFAULT_WAIT_S) * 1000;
      return transport.callJson(
        'POST /control/v1/cache/purge',
        { query: { wait }, body: what },
        { signal, repeatable: true, timeoutMs: limitMs },
      );
    },
  };
}
