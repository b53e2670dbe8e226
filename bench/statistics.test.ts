import { describe, expect, test } from 'vitest';
import { exactRatio, mean, median, ratioOf, summarize } from './statistics.ts';

describe('statistics', () => {
  test('one slow round does not move the median', () => {
    expect(median([3, 1, 2])).toBe(2);
    expect(median([1, 2, 3, 1000, 2])).toBe(2);
    expect(median([4, 1, 3, 2])).toBe(2.5);
    expect(median([7])).toBe(7);
  });

  test('no values are an error, not a zero that looks like a record', () => {
    expect(() => median([])).toThrow(RangeError);
    expect(() => mean([])).toThrow(RangeError);
  });

  test('the given values keep their order', () => {
    const values = [3, 1, 2];
    median(values);
    expect(values).toEqual([3, 1, 2]);
  });

  test('a summary has median and range', () => {
    expect(summarize([5, 1, 3])).toEqual({ median: 3, low: 1, high: 5 });
  });

  test('a ratio compares medians; its range comes from pairs of rounds', () => {
    expect(ratioOf([1, 2, 3], [2, 4, 4])).toEqual({ value: 0.5, low: 0.5, high: 0.75 });
    expect(() => ratioOf([1], [1, 2])).toThrow(RangeError);
  });

  test('an exact ratio has no range', () => {
    expect(exactRatio(3, 4)).toEqual({ value: 0.75, low: 0.75, high: 0.75 });
  });
});
