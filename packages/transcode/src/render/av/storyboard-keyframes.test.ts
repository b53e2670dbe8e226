import { expect, test } from 'vitest';
import { colors, cuesOf, hueRgb, storyboard } from '../../../test/frames.ts';
import { furthest } from '../../../test/pictures.ts';
import { renderedClips, x264 } from '../../../test/rendered-clips.ts';
import { sharp } from '../../vips.ts';

const { clip, render } = renderedClips();

/** Six colours, each for this many seconds, with keyframes only at these times. */
const keyedAt = (name: string, hueSeconds: number, keys: string, ...more: string[]) =>
  clip(
    name,
    ...[...colors(6), '-filter_complex', `concat=n=6,setpts=PTS*${hueSeconds},fps=25`, ...x264, '-g', '9999'],
    ...['-sc_threshold', '0', '-force_key_frames', keys, ...more],
  );

test('if keyframes are as far apart as tiles, each tile uses the one in its own span', async () => {
  const path = clip(
    'keyed.mkv',
    ...colors(6),
    '-filter_complex',
    'concat=n=6',
    ...x264,
    '-g',
    '25',
    '-sc_threshold',
    '0',
  );
  const { of, result } = await render(path, storyboard);
  expect(result.renditions[0]).toMatchObject({ notes: ['6 tiles, 1.0 s apart, from keyframes only.'] });
  const { data, info } = await sharp(of('storyboard.jpg')).raw().toBuffer({ resolveWithObject: true });
  for (const [index, { x, y, width, height }] of cuesOf(of('storyboard.vtt').toString('utf8')).entries()) {
    const at = ((y + height / 2) * info.width + x + width / 2) * 3;
    expect(furthest([[...data.subarray(at, at + 3)]], [hueRgb[index] ?? []]), `tile ${index}`).toBeLessThan(24);
  }
});

test('the storyboard of a long video with close keyframes uses only keyframes', async () => {
  const path = clip(
    'long.mp4',
    ...[...colors(6), '-filter_complex', 'concat=n=6,setpts=PTS*4,fps=25', ...x264, '-g', '25', '-sc_threshold', '0'],
  );
  const { of, result } = await render(path, [
    { ...storyboard[0], max_tiles: 6 },
    { ...storyboard[1], max_tiles: 6 },
  ]);
  expect(result.renditions[0]).toMatchObject({
    state: 'ready',
    notes: ['6 tiles, 4.0 s apart, from keyframes only.'],
  });
  const { data, info } = await sharp(of('storyboard.jpg')).raw().toBuffer({ resolveWithObject: true });
  for (const [index, { x, y, width, height }] of cuesOf(of('storyboard.vtt').toString('utf8')).entries()) {
    const at = ((y + height / 2) * info.width + x + width / 2) * 3;
    expect(furthest([[...data.subarray(at, at + 3)]], [hueRgb[index] ?? []]), `tile ${index}`).toBeLessThan(24);
  }
});

test('if keyframes become rare after the first minute, tiles still show their own time', async () => {
  const dense = Array.from({ length: 35 }, (_, n) => 2 * n).join(',');
  const { of, result } = await render(
    keyedAt('rare-later.mp4', 16, dense),
    storyboard.map((each) => ({ ...each, max_tiles: 48 })),
  );
  expect(result.renditions[0]).toMatchObject({ notes: ['48 tiles, 2.0 s apart, from keyframes except 13.'] });
  await expectTiles(of, 16);
});

test.each(['mp4', 'mkv', 'avi'])(
  'only tiles without a keyframe are decoded from the keyframe before (%s)',
  async (ending) => {
    const path = keyedAt(`some-missing.${ending}`, 5, '0,5,10,13,20,23,26');
    const { of, result } = await render(
      path,
      storyboard.map((each) => ({ ...each, max_tiles: 10 })),
    );
    expect(result.renditions[0]).toMatchObject({
      notes: [expect.stringMatching(/^10 tiles, 3\.0 s apart, from keyframes except [2-5]\.$/)],
    });
    await expectTiles(of, 5);
  },
);

test('the tiles of a transport stream are right, although seeks in it are imprecise', async () => {
  const path = keyedAt('some-missing.ts', 5, '0,5,10,13,20,23,26');
  const { of } = await render(
    path,
    storyboard.map((each) => ({ ...each, max_tiles: 10 })),
  );
  await expectTiles(of, 5);
});

test('a video with hardly any keyframes is decoded once, as a whole', async () => {
  const path = keyedAt('one-key.mp4', 5, '0', '-bf', '3');
  const { of, result } = await render(
    path,
    storyboard.map((each) => ({ ...each, max_tiles: 10 })),
  );
  expect(result.renditions[0]).toMatchObject({ notes: ['10 tiles, 3.0 s apart.'] });
  const passes = result.runs.filter(({ argv }) => !argv.includes('nokey'));
  expect(passes.map(({ argv }) => argv[argv.indexOf('-skip_frame') + 1])).toEqual(['noref']);
  await expectTiles(of, 5);
});

test('if frames are far apart, none is skipped, because a tile would show an older one', async () => {
  const path = clip(
    'slides.mp4',
    ...[...colors(6), '-filter_complex', "concat=n=6,setpts=PTS*5,fps=25,select='not(mod(n,60))'"],
    ...['-fps_mode', 'vfr', ...x264, '-g', '9999', '-sc_threshold', '0'],
  );
  const { of, result } = await render(
    path,
    storyboard.map((each) => ({ ...each, max_tiles: 10 })),
  );
  const last = result.runs.filter(({ argv }) => argv.includes('rawvideo')).at(-1);
  expect(last?.argv).not.toContain('-skip_frame');
  await expectTiles(of, 5);
});

/** Expects that each tile shows the colour of the video at its time; each colour lasts `hueSeconds`. */
async function expectTiles(of: (name: string) => Buffer, hueSeconds: number): Promise<void> {
  const { data, info } = await sharp(of('storyboard.jpg')).raw().toBuffer({ resolveWithObject: true });
  const cues = cuesOf(of('storyboard.vtt').toString('utf8'));
  for (const [index, { from, to, x, y, width, height }] of cues.entries()) {
    const [first, last] = [from, to - 1].map((ms) => Math.floor(ms / 1_000 / hueSeconds) % 6);
    const at = ((y + height / 2) * info.width + x + width / 2) * 3;
    const seen = [...data.subarray(at, at + 3)];
    const off = [first, last].map((hue) => furthest([seen], [hueRgb[hue ?? 0] ?? []]));
    expect(Math.min(...off), `tile ${index}`).toBeLessThan(24);
  }
}
