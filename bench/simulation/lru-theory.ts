/** An object of a cache in the theory: each request is for it with this probability, independently of earlier ones. */
export interface PopularObject {
  readonly probability: number;
  readonly bytes: number;
}

/** Shares of requests and of their bytes. */
export interface HitRatios {
  readonly hitRatio: number;
  readonly byteHitRatio: number;
}

/**
 * Hit ratios of an LRU cache by the approximation of Che, Tung and Wang ("Hierarchical Web caching systems: modeling, design and experimental
 * results", IEEE JSAC 20(7), 2002). An object is held if it was requested within the characteristic time. That time is the same for all
 * objects: within it, as many bytes are requested as fit into the cache. Fricker, Robert and Roberts ("A versatile and accurate approximation
 * for LRU cache performance", ITC 24, 2012, arXiv:1202.3974) explain why it is so accurate.
 */
export function cheHitRatios(objects: readonly PopularObject[], cacheBytes: number): HitRatios {
  const time = characteristicTime(objects, cacheBytes);
  let [hits, requests, hitBytes, bytes] = [0, 0, 0, 0];
  for (const object of objects) {
    const hit = -Math.expm1(-object.probability * time);
    requests += object.probability;
    hits += object.probability * hit;
    bytes += object.probability * object.bytes;
    hitBytes += object.probability * object.bytes * hit;
  }
  return { hitRatio: hits / requests, byteHitRatio: hitBytes / bytes };
}

/** In requests; infinite if everything fits. */
function characteristicTime(objects: readonly PopularObject[], cacheBytes: number): number {
  const held = (time: number) =>
    objects.reduce((sum, { probability, bytes }) => sum - bytes * Math.expm1(-probability * time), 0);
  if (held(Number.POSITIVE_INFINITY) <= cacheBytes) return Number.POSITIVE_INFINITY;
  let [low, high] = [0, 1];
  while (held(high) < cacheBytes) high *= 2;
  // Each step halves the uncertainty; more steps than these exceed the precision of a double.
  for (let step = 0; step < 50; step += 1) {
    const middle = (low + high) / 2;
    if (held(middle) < cacheBytes) low = middle;
    else high = middle;
  }
  return high;
}

/**
 * The exact hit ratio of an LRU cache with room for `slots` objects of one size (King, "Analysis of demand paging algorithms", IFIP 1971):
 * the sum over all possible contents in order of use. Their number explodes, so it suits about ten objects.
 */
export function exactLruHitRatio(probabilities: readonly number[], slots: number): number {
  const walk = (held: ReadonlySet<number>, weight: number, mass: number): number => {
    if (held.size === slots) return weight * mass;
    return probabilities.reduce((sum, probability, index) => {
      if (held.has(index)) return sum;
      return sum + walk(new Set([...held, index]), (weight * probability) / (1 - mass), mass + probability);
    }, 0);
  };
  return walk(new Set(), 1, 0);
}
