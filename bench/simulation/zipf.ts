/** The law by which a few of many are asked for most: the one at rank `i` is asked for in proportion to `1 / i ** alpha`. */
export interface Zipf {
  /** How often the one at `rank` is asked for, as a share of all requests; ranks count from 0. */
  probability(rank: number): number;
  /** A rank by this law. @param uniform from 0 to below 1 */
  draw(uniform: number): number;
}

/**
 * Makes a {@link Zipf} over so many. @param alpha the Zipf exponent: 0 is no preference at all; of requests for pages and files on the web
 * 0.64 to 0.83 were measured (Breslau et al. 1999)
 */
export function createZipf(size: number, alpha: number): Zipf {
  const cumulative = new Float64Array(size);
  let sum = 0;
  for (let rank = 0; rank < size; rank += 1) {
    sum += (rank + 1) ** -alpha;
    cumulative[rank] = sum;
  }
  return {
    probability: (rank) => (rank + 1) ** -alpha / sum,
    draw(uniform) {
      const target = uniform * sum;
      let low = 0;
      let high = size - 1;
      while (low < high) {
        const middle = (low + high) >>> 1;
        if ((cumulative[middle] ?? sum) > target) high = middle;
        else low = middle + 1;
      }
      return low;
    },
  };
}
