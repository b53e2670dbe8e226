import type { DeliveryLog } from './delivery-log.ts';
import { createSimulatedEdge, type EdgeRoom, type Tier } from './simulated-edge.ts';

/** The results of the requests that count. Ratios are shares, 0 to 1. */
export interface Outcome {
  readonly requests: number;
  readonly bytes: number;
  /** The share of requests that were answered from the cache. */
  readonly hitRatio: number;
  /** The same by bytes. */
  readonly byteHitRatio: number;
  /** The share of requests that were answered from memory: part of {@link hitRatio}. */
  readonly memoryHitRatio: number;
  /** Requests to the origin for each request of a client. */
  readonly originRequestRatio: number;
  /** Requests for objects that the point of presence never saw before: misses, however large its cache is. */
  readonly firstRequestRatio: number;
  /** Bytes from the origin. */
  readonly originBytes: number;
}

/**
 * Replays a log over points of presence, each with its own cache that starts empty.
 * @param options.warmUp the first part of the requests, 0 to 1, which fills the caches and does not count
 */
export function simulate(
  log: Pick<DeliveryLog, 'entries'>,
  options: { edges: number; requests: number; warmUp: number; room: EdgeRoom },
): Outcome {
  const edges = Array.from({ length: options.edges }, () => createSimulatedEdge(options.room));
  const originRequests = () => edges.reduce((sum, edge) => sum + edge.originRequests, 0);
  const warmUpRequests = Math.floor(options.requests * options.warmUp);
  const requests: Record<Tier, number> = { memory: 0, disk: 0, origin: 0 };
  const bytes: Record<Tier, number> = { memory: 0, disk: 0, origin: 0 };
  const seen = edges.map(() => new Set<string>());
  let [count, firstRequests] = [0, 0];
  let before = 0;
  for (const entry of log.entries()) {
    if (entry.kind === 'purge') {
      for (const edge of edges) edge.purge(entry.mediaId);
      continue;
    }
    const { sha256, bytes: size } = entry.owned.object;
    const isFirst = !seen[entry.edge]?.has(sha256);
    seen[entry.edge]?.add(sha256);
    if (count === warmUpRequests) before = originRequests();
    const tier = edges[entry.edge]?.deliver(entry.owned);
    if (tier === undefined) throw new RangeError(`There is no point of presence ${entry.edge}.`);
    if (count >= warmUpRequests) {
      requests[tier] += 1;
      bytes[tier] += size;
      if (isFirst) firstRequests += 1;
    }
    count += 1;
  }
  const all = requests.memory + requests.disk + requests.origin;
  const allBytes = bytes.memory + bytes.disk + bytes.origin;
  return {
    requests: all,
    bytes: allBytes,
    hitRatio: 1 - requests.origin / all,
    byteHitRatio: 1 - bytes.origin / allBytes,
    memoryHitRatio: requests.memory / all,
    originRequestRatio: (originRequests() - before) / all,
    firstRequestRatio: firstRequests / all,
    originBytes: bytes.origin,
  };
}
