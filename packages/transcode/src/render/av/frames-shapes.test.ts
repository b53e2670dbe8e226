import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { posters, preview, storyboard } from '../../../test/frames.ts';
import { blue, furthest, green, quarterColors, red, white } from '../../../test/pictures.ts';
import { lavfi, programs, renderedClips, x264 } from '../../../test/rendered-clips.ts';
import { sharp } from '../../vips.ts';

const { clip, render, folder } = renderedClips();

/** A clip of this size with quarters in red, green, blue and white. */
const quartersGraph = (size: string, seconds = 1) =>
  [
    `color=red:s=${size}:r=25:d=${seconds}[a]`,
    ...[`color=lime:s=${size}:r=25:d=${seconds}[b]`, `color=blue:s=${size}:r=25:d=${seconds}[c]`],
    `color=white:s=${size}:r=25:d=${seconds}[d]`,
    '[a][b]hstack[top];[c][d]hstack[bottom];[top][bottom]vstack',
  ].join(';');
const quartersClip = (name: string, size: string, ...more: string[]) =>
  clip(name, '-filter_complex', quartersGraph(size), ...x264, ...more);

test.each([
  ['upright', 0, [180, 320], [red, green, blue, white]],
  ['turned by 90 degrees', 90, [320, 180], [blue, red, white, green]],
  ['turned by 180 degrees', 180, [180, 320], [white, blue, green, red]],
  ['turned by 270 degrees', 270, [320, 180], [green, white, red, blue]],
] as const)('poster, preview and storyboard of a video that is %s are correct', async (_, turn, size, colors) => {
  const coded = quartersClip('tall.mp4', '90x160');
  // Like a phone's file: coded upright, with a matrix that turns it clockwise.
  const path = turn === 0 ? coded : clip(`turned-${turn}.mp4`, '-i', coded, '-c', 'copy');
  if (turn !== 0) turnMp4(path, turn);
  const { of, result } = await render(path, [...posters.slice(0, 1), preview, storyboard[0]]);
  expect(result.renditions).toMatchObject([{ width: size[0], height: size[1] }, {}, {}]);
  for (const name of ['poster.webp', 'preview.webp', 'storyboard.jpg']) {
    expect(furthest(await quarterColors(of(name)), colors), name).toBeLessThan(24);
  }
});

test('pixels become square: a 2:1 sample aspect doubles the width', async () => {
  const path = quartersClip('sar.mp4', '80x90', '-aspect', '32:18');
  const { of } = await render(path, posters.slice(0, 1));
  const { width, height } = await sharp(of('poster.webp')).metadata();
  expect([width, height]).toEqual([320, 180]);
  expect(furthest(await quarterColors(of('poster.webp')), [red, green, blue, white])).toBeLessThan(24);
});

test('odd sizes stay as they are', async () => {
  const path = clip('odd.mp4', ...lavfi('testsrc=s=161x91:r=25:d=1'), '-c:v', 'libx264', '-pix_fmt', 'yuv444p');
  const { result } = await render(path, [...posters.slice(0, 1), preview, ...storyboard]);
  expect(result.renditions).toMatchObject([{ width: 161, height: 91 }, { state: 'ready' }, { state: 'ready' }, {}]);
});

test.each(['smpte2084', 'arib-std-b67'])(
  'high dynamic range (%s) is shown with its colours, not washed out',
  async (trc) => {
    // Colour bars as from a camera: linear light at 203 cd/m² for white, in the wide primaries.
    const wide = `setparams=color_primaries=bt709:color_trc=iec61966-2-1:colorspace=gbr:range=pc,zscale=t=linear:npl=203,format=gbrpf32le,zscale=p=bt2020,zscale=t=${trc}:npl=203:m=bt2020nc:r=tv,format=yuv420p10le`;
    const path = clip(
      `hdr-${trc}.mp4`,
      ...[
        '-filter_complex',
        `${quartersGraph('80x45')},format=gbrp,${wide}`,
        '-c:v',
        'libx264',
        '-preset',
        'ultrafast',
      ],
      ...['-color_primaries', 'bt2020', '-color_trc', trc, '-colorspace', 'bt2020nc'],
    );
    const { of, result } = await render(path, [...posters, storyboard[0]]);
    expect(result.renditions.map(({ state }) => state)).toEqual(['ready', 'ready', 'ready']);
    const [first = [], second = [], third = [], fourth = []] = await quarterColors(of('poster.webp'));
    expect(first[0]).toBeGreaterThan(150);
    expect(Math.max(first[1] ?? 0, first[2] ?? 0)).toBeLessThan(70);
    expect(second[1]).toBeGreaterThan(150);
    expect(third[2]).toBeGreaterThan(150);
    expect(Math.min(...fourth.slice(0, 3))).toBeGreaterThan(190);
  },
);

test('if ffmpeg cannot map high dynamic range, images are flat, with a warning', async () => {
  const path = clip('pq.mp4', ...lavfi('testsrc2=s=160x90:r=25:d=1'), ...x264, '-color_trc', 'smpte2084');
  // An ffmpeg whose list of filters looks like a build without zimg.
  const less = join(folder, 'ffmpeg-without-zimg');
  const real = programs.ffmpeg.path;
  const script = `#!/bin/sh\ncase "$*" in\n*-filters) "${real}" "$@" | grep -v zscale ;;\n*) exec "${real}" "$@" ;;\nesac\n`;
  writeFileSync(less, script, { mode: 0o755 });
  const poor = { ...programs, ffmpeg: { ...programs.ffmpeg, path: less } };
  const { result } = await render(path, [...posters, preview, storyboard[0]], { programs: poor });
  expect(result.renditions.map(({ state }) => state)).toEqual(['ready', 'ready', 'ready', 'ready']);
  expect(result.warnings).toEqual([expect.stringMatching(/high dynamic range.*flat/)]);
  expect(result.runs.filter(({ argv }) => argv.some((arg) => arg.includes('zscale')))).toEqual([]);
});

test('a transparent video has its posters and storyboard over black, its preview not', async () => {
  const path = clip(
    'alpha.webm',
    ...lavfi(
      "color=red:s=160x90:r=10:d=1,format=yuva420p,geq=lum='lum(X,Y)':cb='cb(X,Y)':cr='cr(X,Y)':a='if(lt(X,80),255,0)'",
    ),
    ...['-c:v', 'libvpx-vp9', '-pix_fmt', 'yuva420p', '-deadline', 'realtime', '-cpu-used', '8'],
  );
  const { of } = await render(path, [
    ...[posters[0], posters[1], preview, storyboard[0]],
    { name: 'poster', container: 'avif', source_kinds: ['video'], width: 160 },
  ]);
  const [left = [], right = []] = await quarterColors(of('preview.webp'));
  expect(furthest([left], [[255, 0, 0, 255]])).toBeLessThan(24);
  expect(right[3]).toBeLessThan(10);
  for (const name of ['poster.webp', 'poster.avif', 'poster.jpg', 'storyboard.jpg']) {
    expect(furthest(await quarterColors(of(name)), [red, [0, 0, 0], red, [0, 0, 0]]), name).toBeLessThan(24);
  }
});

test('interlaced video gives images without combs', async () => {
  // Vertical bars that move sideways: in a single field all rows are equal, in two interleaved fields they are not.
  const bars = "nullsrc=s=160x96:r=50:d=2,geq=lum='255*lt(mod(X+9*N,64),32)':cb=128:cr=128";
  const path = clip(
    'interlaced.mp4',
    ...[
      ...lavfi(bars),
      '-vf',
      'tinterlace=interleave_top,fieldorder=tff,setfield=tff',
      '-c:v',
      'libx264',
      '-crf',
      '10',
    ],
    ...['-pix_fmt', 'yuv420p', '-flags', '+ildct+ilme', '-x264opts', 'tff=1'],
  );
  const { of } = await render(path, [posters[0], preview, { ...storyboard[0], columns: 1 }]);
  for (const name of ['poster.webp', 'preview.webp', 'storyboard.jpg']) {
    const { data, info } = await sharp(of(name)).greyscale().raw().toBuffer({ resolveWithObject: true });
    let steps = 0;
    for (let at = 0; at < info.width * 80; at++) steps += Math.abs((data[at] ?? 0) - (data[at + info.width] ?? 0));
    expect(steps / (info.width * 80), name).toBeLessThan(6);
  }
});

/** Sets the matrix of an MP4's video track (ISO/IEC 14496-12, 8.3.2) to a clockwise rotation. */
function turnMp4(path: string, degrees: 90 | 180 | 270): void {
  const bytes = readFileSync(path);
  const tkhd = bytes.indexOf('tkhd');
  // Version and flags, two times, id, reserved, duration, two reserved, layer, group, volume, reserved.
  const matrix = tkhd + 4 + 4 + 8 + 4 + 4 + 4 + 8 + 8;
  const one = 0x1_0000;
  const [a, b, c, d] = { 90: [0, one, -one, 0], 180: [-one, 0, 0, -one], 270: [0, -one, one, 0] }[degrees] as number[];
  for (const [at, value] of [
    [0, a],
    [4, b],
    [12, c],
    [16, d],
  ] as const) {
    bytes.writeInt32BE(value ?? 0, matrix + at);
  }
  writeFileSync(path, bytes);
}
