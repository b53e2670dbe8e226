import type { Ratio } from './benchmark.ts';

/** The median: the middle value, or the mean of the two in the middle. Throws a `RangeError` for no values. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const upper = sorted[Math.floor(sorted.length / 2)];
  const lower = sorted[Math.ceil(sorted.length / 2) - 1];
  if (upper === undefined || lower === undefined) throw new RangeError('There is no median of nothing.');
  return (lower + upper) / 2;
}

/** The arithmetic mean. Throws a `RangeError` for no values. */
export function mean(values: readonly number[]): number {
  if (values.length === 0) throw new RangeError('There is no mean of nothing.');
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

export interface Summary {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

/** Median and range of the values of all rounds. */
export function summarize(values: readonly number[]): Summary {
  return { median: median(values), low: Math.min(...values), high: Math.max(...values) };
}

/**
 * The ratio of the medians of two sides. Its range comes from the ratios of single rounds, because the two sides of a round ran under
 * the same conditions.
 */
export function ratioOf(ours: readonly number[], theirs: readonly number[]): Ratio {
  if (ours.length !== theirs.length) throw new RangeError('Both sides need the same number of rounds.');
  const pairs = ours.map((value, round) => value / (theirs[round] ?? Number.NaN));
  return { value: median(ours) / median(theirs), low: Math.min(...pairs), high: Math.max(...pairs) };
}

/** A ratio of two exact figures (bytes, SSIM), without a range. */
export function exactRatio(ours: number, theirs: number): Ratio {
  const value = ours / theirs;
  return { value, low: value, high: value };
}
