import { expect, test } from 'vitest';
import { keyframeGaps } from './storyboard-gaps.ts';

test('if every span has a keyframe there is no gap, even if containers round times', () => {
  expect(keyframeGaps([0, 1_000, 2_000, 3_000], 4, 1_000)).toEqual([]);
  expect(keyframeGaps([0, 999.4, 1_999.6, 3_000.4], 4, 1_000)).toEqual([]);
});

test('a gap is decoded from the keyframe before it to its last frame', () => {
  expect(keyframeGaps([0, 500, 4_200], 5, 1_000)).toEqual([{ first: 1, tiles: 3, atMs: 1_250, decodedMs: 2_750 }]);
  expect(keyframeGaps([0], 2, 1_000)).toEqual([{ first: 1, tiles: 1, atMs: 1_250, decodedMs: 1_250 }]);
});

test('before the first keyframe there is no gap', () => {
  expect(keyframeGaps([2_500], 4, 1_000)).toEqual([{ first: 3, tiles: 1, atMs: 3_250, decodedMs: 750 }]);
  expect(keyframeGaps([], 4, 1_000)).toEqual([]);
});
