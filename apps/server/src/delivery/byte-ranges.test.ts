import { describe, expect, it } from 'vitest';
import { MAX_RANGES, parseByteRanges } from './byte-ranges.ts';

describe('ranges of 1000 bytes', () => {
  it.each<[string, [number, number][]]>([
    ['bytes=0-0', [[0, 0]]],
    ['bytes=0-499', [[0, 499]]],
    ['bytes=500-', [[500, 999]]],
    ['bytes=-200', [[800, 999]]],
    ['bytes=-2000', [[0, 999]]],
    ['bytes=999-5000', [[999, 999]]],
    ['bytes=0-99999999999999999999999', [[0, 999]]],
    ['BYTES=0-1', [[0, 1]]],
    // Several ranges keep the order of the request.
    [
      'bytes=0-0,-1',
      [
        [0, 0],
        [999, 999],
      ],
    ],
    [
      'bytes=500-600, 0-9',
      [
        [500, 600],
        [0, 9],
      ],
    ],
    [
      'bytes=,0-1, ,4-5,',
      [
        [0, 1],
        [4, 5],
      ],
    ],
    // Unsatisfiable ranges among satisfiable ones are left out.
    ['bytes=0-1,5000-6000', [[0, 1]]],
    ['bytes=0-1,-0', [[0, 1]]],
    // Overlapping and adjacent ranges are sent once.
    ['bytes=0-100,50-150', [[0, 150]]],
    ['bytes=0-100,101-150', [[0, 150]]],
    [
      'bytes=0-100,102-150',
      [
        [0, 100],
        [102, 150],
      ],
    ],
    [
      'bytes=600-700,0-9,650-800',
      [
        [600, 800],
        [0, 9],
      ],
    ],
    ['bytes=0-,0-,0-,-1000', [[0, 999]]],
  ])('%s selects exactly these bytes', (field, expected) => {
    expect(parseByteRanges(field, 1000)).toEqual(expected.map(([start, end]) => ({ start, end })));
  });

  it.each(['bytes=1000-', 'bytes=1000-2000', 'bytes=-0', 'bytes=5000-6000,7000-'])(
    '%s is outside and gets 416',
    (field) => {
      expect(parseByteRanges(field, 1000)).toBe('unsatisfiable');
    },
  );

  it.each([
    'bytes',
    'bytes=',
    'bytes=,',
    'bytes=-',
    'bytes=a-b',
    'bytes=5-4',
    'bytes=0-1,5-4',
    'bytes=0-1-2',
    'bytes=0x1-2',
    'bytes=+1-2',
    'bytes=1.5-2',
    'bytes = 0-1',
    'items=0-1',
    'none',
  ])('%j is ignored, as if there were no Range header', (field) => {
    expect(parseByteRanges(field, 1000)).toBeNull();
  });

  it('too many ranges are ignored, so that no request makes thousands of parts', () => {
    const many = (count: number) =>
      `bytes=${Array.from({ length: count }, (_, at) => `${at * 3}-${at * 3}`).join(',')}`;
    expect(parseByteRanges(many(MAX_RANGES), 1000)).toHaveLength(MAX_RANGES);
    expect(parseByteRanges(many(MAX_RANGES + 1), 1000)).toBeNull();
  });

  it('a hostile field does not keep the parser busy', () => {
    const before = performance.now();
    parseByteRanges(`bytes=0-1,${' '.repeat(16_000)}x`, 1000);
    parseByteRanges(`bytes=${','.repeat(16_000)}`, 1000);
    expect(performance.now() - before).toBeLessThan(50);
  });
});

describe('ranges of an empty object', () => {
  it('no range is satisfiable, except a suffix', () => {
    expect(parseByteRanges('bytes=0-', 0)).toBe('unsatisfiable');
    expect(parseByteRanges('bytes=0-0', 0)).toBe('unsatisfiable');
    expect(parseByteRanges('bytes=-5', 0)).toBeNull();
  });
});
