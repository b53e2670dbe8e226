/** A Zipf distribution: the item at rank `i` is requested in proportion to `1 / i ** alpha`. */
export interface Zipf {
  /** The share of all requests for the item at `rank`; ranks count from 0. */
  probability(rank: number): number;
  /** Draws a rank. @param uniform from 0 to below 1 */
  draw(uniform: number): number;
}

/**
 * Makes a {@link Zipf} distribution over `size` items. @param alpha the Zipf exponent: 0 means no preference. For requests of web pages and
 * files, 0.64 to 0.83 was measured (Breslau et al. 1999)
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
