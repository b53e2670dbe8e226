import { expect, test } from 'vitest';
import { type FramePosition, parseFrameTimes } from './frames.ts';

const wanted: FramePosition[] = [
  { atMs: 600, seek: 'keyframe' },
  { atMs: 2_000, seek: 'exact' },
  { atMs: 0, seek: 'first' },
];

test('the time of a frame is that of the seek and what it is off by, in whatever order the programs tell', () => {
  const output = [
    'frame:0    pts:512     pts_time:0.04',
    'place=1',
    // A keyframe from before the time that was sought, and the frame after it, which nobody asked for.
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

test('places that gave no frame have no time', () => {
  expect(parseFrameTimes('', wanted).size).toBe(0);
  expect(parseFrameTimes('frame:0 pts:0 pts_time:0\nplace=7\n', wanted).size).toBe(0);
});
