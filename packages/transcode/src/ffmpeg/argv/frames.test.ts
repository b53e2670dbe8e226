import { expect, test } from 'vitest';
import { type FramePosition, parseFrameTimes } from './frames.ts';

const wanted: FramePosition[] = [
  { atMs: 600, seek: 'keyframe' },
  { atMs: 2_000, seek: 'exact' },
  { atMs: 0, seek: 'first' },
];

test('a frame time is the seek time plus its offset, in any order of the output', () => {
  const output = [
    'frame:0    pts:512     pts_time:0.04',
    'place=1',
    // A keyframe before the seek time, and the frame after it, which was not requested.
    'frame:0    pts:-7680   pts_time:-0.6',
    'place=0',
    'frame:1    pts:17920   pts_time:1.4',
    'place=0',
    'frame:0    pts:0       pts_time:0',
    'place=2',
  ].join('\n');
  expect([...parseFrameTimes(output, wanted)].sort()).toEqual([
    [0, 0],
    [1, 2_040],
    [2, 0],
  ]);
});

test('a position without a frame has no time', () => {
  expect(parseFrameTimes('', wanted).size).toBe(0);
  expect(parseFrameTimes('frame:0 pts:0 pts_time:0\nplace=7\n', wanted).size).toBe(0);
});
