import { expect, test } from 'vitest';
import { copyArgv, ladderArgv, type Picture, type VideoOutput } from './ladder.ts';

const picture: Picture = {
  ...{ index: 0, deinterlace: false, alpha: false, toneMap: null, assumedMatrix: null, matrix: 'bt709' },
  frameRate: { num: 30_000, den: 1_001 },
};
const output = (width: number, height: number): VideoOutput => ({
  ...{ path: `${height}.mp4`, width, height, crf: 23, speed: 'veryfast', bitrate: 1_000_000 },
});
const after = (argv: readonly string[], option: string) => argv[argv.indexOf(option) + 1] ?? '';

test('one graph decodes once, and scales each size from the next larger one', () => {
  const argv = ladderArgv({
    ...{ picture, videos: [output(640, 360), output(1280, 720)], keyframes: { every: 120 } },
    ...{ audio: { index: 1, sampleRate: 48_000, channels: 2 }, audios: [{ path: 'a.mp4', bitrate: 128_000 }] },
  });
  expect(argv.filter((word) => word === '-filter_complex')).toHaveLength(1);
  const chains = after(argv, '-filter_complex').split(';');
  expect(chains[0]).toMatch(/^\[0:0\]fps=fps=30000\/1001:start_time=0:round=near,scale=1280:720:.*,split\[v1\]\[s0\]$/);
  expect(chains[1]).toMatch(/^\[s0\]scale=640:360:.*\[v0\]$/);
  expect(chains[2]).toMatch(/^\[0:1\]aresample=48000:.*\[a0\]$/);
  expect(argv.filter((_, i) => argv[i - 1] === '-map')).toEqual(['[v0]', '[v1]', '[a0]']);
  expect(after(argv, '-bufsize')).toBe('2000000');
});

test('forced keyframes are requested slightly early, so that rounding cannot miss them', () => {
  const argv = ladderArgv({
    ...{ picture: { ...picture, frameRate: { num: 25, den: 1 } }, videos: [output(640, 360)] },
    ...{ keyframes: { at: [0, 40, 95] }, audio: null, audios: [] },
  });
  expect(after(argv, '-force_key_frames')).toBe('0.000000,1.590000,3.790000');
  // No other keyframes, however long the rest after the last one is.
  expect(Number(after(argv, '-g'))).toBeGreaterThan(1e9);
});

test('audio alone needs no picture', () => {
  const argv = ladderArgv({
    ...{ picture: null, videos: [], keyframes: { every: 1 }, audio: { index: 2, sampleRate: 44_100, channels: 1 } },
    audios: [
      { path: 'a.mp4', bitrate: 96_000 },
      { path: 'b.mp4', bitrate: 128_000 },
    ],
  });
  expect(after(argv, '-filter_complex')).toMatch(
    /^\[0:2\]aresample=44100:.*channel_layouts=mono,asplit=2\[a0\]\[a1\]$/,
  );
  expect(argv).not.toContain('libx264');
});

test('copies take each stream into its own file', () => {
  const argv = copyArgv([{ index: 3, path: 'v.mp4' }]);
  expect(argv.slice(0, 4)).toEqual(['-map', '0:3', '-c', 'copy']);
  expect(argv.at(-1)).toBe('v.mp4');
});
