import { readdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import { brightness, posters } from '../../../test/frames.ts';
import { lavfi, renderedClips, x264 } from '../../../test/rendered-clips.ts';

const { clip, render } = renderedClips();

test('a clip with its only keyframe in a black start has a poster that is not black', async () => {
  const path = clip(
    'black-lead.mp4',
    ...[...lavfi('color=black:s=320x180:r=25:d=2'), ...lavfi('testsrc2=s=320x180:r=25:d=4')],
    ...['-filter_complex', '[0][1]concat=n=2', ...x264, '-g', '500', '-sc_threshold', '0'],
  );
  const { result, of, folder } = await render(path, posters);
  expect(result.renditions).toMatchObject([
    { state: 'ready', width: 320, height: 180, frames: 1, durationMs: null },
    { state: 'ready', width: 160, height: 90 },
  ]);
  for (const name of ['poster.webp', 'poster.jpg']) expect(await brightness(of(name)), name).toBeGreaterThan(80);
  expect(readdirSync(folder).sort()).toEqual(['poster.jpg', 'poster.webp']);
  expect(Buffer.from(result.thumbhash ?? '', 'base64').length).toBeGreaterThan(4);
});

test('a poster is neither a fade nor a white title if the video has better frames', async () => {
  const path = clip(
    'fades.mp4',
    ...[...lavfi('color=white:s=320x180:r=25:d=3'), ...lavfi('testsrc2=s=320x180:r=25:d=6')],
    ...['-filter_complex', '[1]fade=in:st=0:d=3,fade=out:st=4:d=2[f];[0][f]concat=n=2', ...x264, '-g', '25'],
  );
  const { of, only } = await render(path, posters.slice(0, 1));
  const at = Number(/The frame at ([\d.]+) s/.exec(only().notes[0] ?? '')?.[1]);
  // Full brightness lasts from 6 s to 7 s; nearly full is enough.
  expect(at).toBeGreaterThan(4.5);
  expect(at).toBeLessThan(8);
  expect(await brightness(of('poster.webp'))).toBeGreaterThan(60);
});
