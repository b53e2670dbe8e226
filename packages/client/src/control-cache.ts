import type { Purge, PurgeResult } from '@mds/contract';
import type { RequestOptions, Transport } from './transport.ts';

/** Options of a purge. */
export interface PurgeOptions extends RequestOptions {
  /**
   * Whole seconds, 0 to 30, for which the service waits for the nodes to confirm; its default is 5. The nodes purge whether or not the
   * service waits.
   */
  wait?: number | undefined;
}

/** The operator's methods for caches. */
export interface ControlCache {
  /**
   * Purges every cache tier of every node in every region: all of a media object (`{ media_id }`), the content of one delivery path
   * (`{ path }`), or `{ everything: true }`. No data is lost, because the caches fetch again what is requested again.
   * Resolves with a receipt for each known node, even if some have not confirmed: see `complete`.
   */
  purge(what: Purge, options?: PurgeOptions): Promise<PurgeResult>;
}

/** The service's default of `wait`, in seconds. */
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
