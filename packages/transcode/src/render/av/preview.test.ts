import { expect, test } from 'vitest';
import { colors, hueRgb, preview } from '../../../test/frames.ts';
import { furthest } from '../../../test/pictures.ts';
import { lavfi, renderedClips, x264 } from '../../../test/rendered-clips.ts';
import { sharp } from '../../vips.ts';

const { clip, render } = renderedClips();

test('a preview is animated, at most at the preset rate, and repeats for ever', async () => {
  const path = clip('moving.mp4', ...lavfi('testsrc2=s=640x360:r=30:d=5'), ...x264);
  const { result, of } = await render(path, [preview]);
  const { width, height, pages, delay, loop } = await sharp(of('preview.webp')).metadata();
  expect({ width, pageHeight: height, pages, loop }).toEqual({ width: 480, pageHeight: 270, pages: 30, loop: 0 });
  expect(delay).toEqual(Array.from({ length: 30 }, () => 100));
  expect(result.renditions).toMatchObject([{ state: 'ready', width: 480, height: 270, frames: 30, durationMs: 3_000 }]);
});

test('a preview begins at the poster frame, but early enough to have its full length', async () => {
  const path = clip('colors.mp4', ...colors(6), '-filter_complex', 'concat=n=6', ...x264);
  const { only, of } = await render(path, [{ ...preview, seconds: 2, frame_rate: 5 }]);
  expect(only()).toMatchObject({ durationMs: 2_000 });
  const startS = Number(/From ([\d.]+) s/.exec(only().notes[0] ?? '')?.[1]);
  expect(startS).toBeLessThanOrEqual(4);
  const { data } = await sharp(of('preview.webp')).raw().toBuffer({ resolveWithObject: true });
  expect(furthest([[...data.subarray(0, 3)]], [hueRgb[Math.floor(startS)] ?? []])).toBeLessThan(24);
});

test('a preview of a late scene begins early enough to be complete', async () => {
  const path = clip(
    'late.mp4',
    ...[...lavfi('color=black:s=320x180:r=25:d=4'), ...lavfi('testsrc2=s=320x180:r=25:d=1')],
    ...['-filter_complex', '[0][1]concat=n=2', ...x264],
  );
  const { only } = await render(path, [preview]);
  expect(only()).toMatchObject({ durationMs: 3_000, notes: ['From 2.0 s, 30 frames at 10 a second.'] });
});
