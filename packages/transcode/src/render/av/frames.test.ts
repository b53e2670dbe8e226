import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { brightness, colors, cuesOf, hueRgb, posters, preview, storyboard } from '../../../test/frames.ts';
import { furthest } from '../../../test/pictures.ts';
import { lavfi, renderedClips, x264 } from '../../../test/rendered-clips.ts';
import { sharp } from '../../vips.ts';

const { clip, render, folder } = renderedClips();

test('a black, white or one-frame video still has poster, preview and storyboard', async () => {
  const black = clip('black.mp4', ...lavfi('color=black:s=160x90:r=25:d=2'), ...x264);
  const white = clip('white.mp4', ...lavfi('color=white:s=160x90:r=25:d=2'), ...x264);
  const still = clip('still.mp4', ...lavfi('testsrc2=s=160x90:r=25:d=1'), '-frames:v', '1', ...x264);
  for (const path of [black, white, still]) {
    const { result, of } = await render(path, [...posters, preview, ...storyboard]);
    expect(result.renditions.flatMap((rendition) => (rendition.state === 'failed' ? [rendition.reason] : []))).toEqual(
      [],
    );
    expect(result.renditions).toHaveLength(5);
    expect(cuesOf(of('storyboard.vtt').toString('utf8')).length).toBe(path === still ? 1 : 2);
    expect(cuesOf(of('storyboard.vtt').toString('utf8')).at(-1)?.to).toBe(path === still ? 40 : 2_000);
    expect((await sharp(of('preview.webp')).metadata()).loop ?? 0).toBe(0);
  }
});

test('invariant 5: poster, preview and storyboard have equal bytes alone and together', async () => {
  const path = clip('moving.mp4', ...lavfi('testsrc2=s=640x360:r=30:d=5'), ...x264);
  const all = await render(path, [...posters, preview, ...storyboard]);
  for (const preset of [...posters, preview, storyboard[0]]) {
    const alone = await render(path, [preset]);
    const name = `${alone.only().name}.${alone.only().extension}`;
    expect(alone.of(name).equals(all.of(name)), name).toBe(true);
  }
});

test('an undecodable video fails with a sentence, and so does its storyboard index', async () => {
  const path = clip('colors.mp4', ...colors(6), '-filter_complex', 'concat=n=6', ...x264);
  const { result, folder } = await render(path, [...posters, preview, ...storyboard], { source: { format: 'webm' } });
  expect(result.renditions.map(({ state }) => state)).toEqual(['failed', 'failed', 'failed', 'failed', 'failed']);
  for (const rendition of result.renditions) {
    if (rendition.state === 'failed')
      expect(rendition.reason).toMatch(/could not be made: (no frame of the video|the source) .*\.$/);
  }
  expect(readdirSync(folder)).toEqual([]);
});

test('fault 22: the remaining part of a cut video is shown', async () => {
  const whole = clip('moving.mp4', ...lavfi('testsrc2=s=640x360:r=30:d=5'), ...x264);
  const indexFirst = clip('index-first.mp4', '-i', whole, '-c', 'copy', '-movflags', '+faststart');
  const bytes = readFileSync(indexFirst);
  const path = join(folder, 'cut.mp4');
  writeFileSync(path, bytes.subarray(0, Math.floor(bytes.length * 0.4)));
  const { result, of } = await render(path, [...posters, preview, ...storyboard]);
  expect(result.renditions.flatMap((rendition) => (rendition.state === 'failed' ? [rendition.reason] : []))).toEqual(
    [],
  );
  expect(await brightness(of('poster.webp'))).toBeGreaterThan(80);
  // The last tile is the last existing frame, which players keep showing.
  const { data, info } = await sharp(of('storyboard.jpg')).raw().toBuffer({ resolveWithObject: true });
  const last = cuesOf(of('storyboard.vtt').toString('utf8')).at(-1);
  const at = (((last?.y ?? 0) + 10) * info.width + (last?.x ?? 0) + 10) * 3;
  expect(Math.max(...data.subarray(at, at + 3))).toBeGreaterThan(40);
});

test('aborting a render of frames stops its programs', async () => {
  const path = clip('moving.mp4', ...lavfi('testsrc2=s=640x360:r=30:d=5'), ...x264);
  const controller = new AbortController();
  setTimeout(() => controller.abort(), 60);
  await expect(render(path, [...posters, preview, ...storyboard], { signal: controller.signal })).rejects.toMatchObject(
    {
      code: 'aborted',
    },
  );
});

test.each([
  ['ts', ['-c:v', 'mpeg2video', '-q:v', '2', '-g', '12']],
  ['avi', ['-c:v', 'mpeg4', '-q:v', '2', '-g', '250']],
  ['mkv', ['-c:v', 'mjpeg', '-q:v', '2', '-strict', 'unofficial']],
  ['webm', ['-c:v', 'libvpx', '-b:v', '1M', '-deadline', 'realtime', '-cpu-used', '8', '-g', '250']],
])('%s: frames are found at their times, wherever the container starts counting', async (extension, codec) => {
  const path = clip(
    `colors.${extension}`,
    ...colors(4),
    '-filter_complex',
    'concat=n=4',
    '-pix_fmt',
    'yuv420p',
    ...codec,
  );
  const { of, result } = await render(path, [...storyboard, { ...preview, seconds: 1 }, ...posters]);
  expect(result.renditions.map(({ state }) => state)).toEqual(['ready', 'ready', 'ready', 'ready', 'ready']);
  const { data, info } = await sharp(of('storyboard.jpg')).raw().toBuffer({ resolveWithObject: true });
  const cues = cuesOf(of('storyboard.vtt').toString('utf8'));
  expect(cues).toHaveLength(4);
  for (const [index, { x, y, width, height }] of cues.entries()) {
    const at = ((y + height / 2) * info.width + x + width / 2) * 3;
    expect(furthest([[...data.subarray(at, at + 3)]], [hueRgb[index] ?? []]), `tile ${index}`).toBeLessThan(40);
  }
  // The start time in the preview's note must match its first frame.
  const note = result.renditions.find(({ name }) => name === 'preview');
  const startS = Number(/From ([\d.]+) s/.exec(note?.state === 'ready' ? (note.notes[0] ?? '') : '')?.[1]);
  const first = await sharp(of('preview.webp')).raw().toBuffer();
  expect(furthest([[...first.subarray(0, 3)]], [hueRgb[Math.floor(startS + 0.05)] ?? []])).toBeLessThan(40);
});
