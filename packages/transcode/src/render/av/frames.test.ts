import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { identifyForTests } from '../../../test/identify-for-tests.ts';
import { blue, furthest, green, quarterColors, red, white } from '../../../test/pictures.ts';
import { lavfi, programs, renderedClips, x264 } from '../../../test/rendered-clips.ts';
import { defaultLimits } from '../../limits.ts';
import type { PlannedRendition } from '../../plan.ts';
import { sharp } from '../../vips.ts';
import { renderAv } from './render-av.ts';

const { clip, render, folder } = renderedClips();

const posters = [
  { name: 'poster', container: 'webp', source_kinds: ['video'], width: 1280, height: 1280 },
  { name: 'poster', container: 'jpeg', source_kinds: ['video'], width: 160, height: 160 },
];

async function brightness(picture: Buffer): Promise<number> {
  const { channels } = await sharp(picture).stats();
  return channels.slice(0, 3).reduce((sum, { mean }) => sum + mean / 3, 0);
}

test('a clip that begins black, with its only keyframe there, gets a poster that shows something', async () => {
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

/** A second of each colour. */
const hues = ['red', 'lime', 'blue', 'yellow', 'magenta', 'cyan'];
const hueRgb = [
  [255, 0, 0],
  [0, 255, 0],
  [0, 0, 255],
  [255, 255, 0],
  [255, 0, 255],
  [0, 255, 255],
];
const colors = (seconds: number) => hues.slice(0, seconds).flatMap((hue) => lavfi(`color=${hue}:s=320x180:r=25:d=1`));

const storyboard = [
  { type: 'storyboard', name: 'storyboard', container: 'jpeg', columns: 4 },
  { type: 'storyboard', name: 'storyboard', container: 'vtt', columns: 4 },
];

test('a storyboard shows in each tile what the video shows then, and its index covers the video without gaps', async () => {
  const path = clip(
    'colors.mp4',
    ...colors(6),
    '-filter_complex',
    'concat=n=6',
    ...x264,
    '-g',
    '75',
    '-sc_threshold',
    '0',
  );
  const { result, of, plan } = await render(path, storyboard);
  expect(result.renditions).toMatchObject([
    { state: 'ready', width: 640, height: 180 },
    { state: 'ready', width: 0, height: 0 },
  ]);
  const cues = cuesOf(of('storyboard.vtt').toString('utf8'));
  expect(cues.map(({ from, to }) => [from, to])).toEqual([0, 1, 2, 3, 4, 5].map((n) => [n * 1_000, n * 1_000 + 1_000]));
  const { data, info } = await sharp(of('storyboard.jpg')).raw().toBuffer({ resolveWithObject: true });
  for (const [index, { sprite, x, y, width, height }] of cues.entries()) {
    expect(sprite).toBe(`storyboard.${plan[0]?.revision}.jpg`);
    const at = ((y + height / 2) * info.width + x + width / 2) * 3;
    expect(furthest([[...data.subarray(at, at + 3)]], [hueRgb[index] ?? []]), `tile ${index}`).toBeLessThan(24);
  }
});

/** Cues of a storyboard's index, by a parser that knows WebVTT and media fragments and nothing of the engine. */
function cuesOf(vtt: string) {
  const [head, ...blocks] = vtt.trimEnd().split('\n\n');
  expect(head).toBe('WEBVTT');
  const ms = (text: string) => {
    const [hours = 0, minutes = 0, seconds = 0] = text.split(':').map(Number);
    return Math.round((hours * 3_600 + minutes * 60 + seconds) * 1_000);
  };
  return blocks.map((block) => {
    const parts = /^(\d\d:\d\d:\d\d\.\d{3}) --> (\d\d:\d\d:\d\d\.\d{3})\n(\S+)#xywh=(\d+),(\d+),(\d+),(\d+)$/.exec(
      block,
    );
    if (parts === null) throw new Error(`not a cue: ${block}`);
    const [, from = '', to = '', sprite = '', ...numbers] = parts;
    const [x = 0, y = 0, width = 0, height = 0] = numbers.map(Number);
    return { from: ms(from), to: ms(to), sprite, x, y, width, height };
  });
}

const preview = { type: 'preview', name: 'preview' };

test('a preview moves, at most as fast as the preset says, for ever', async () => {
  const path = clip('moving.mp4', ...lavfi('testsrc2=s=640x360:r=30:d=5'), ...x264);
  const { result, of } = await render(path, [preview]);
  const { width, height, pages, delay, loop } = await sharp(of('preview.webp')).metadata();
  expect({ width, pageHeight: height, pages, loop }).toEqual({ width: 480, pageHeight: 270, pages: 30, loop: 0 });
  expect(delay).toEqual(Array.from({ length: 30 }, () => 100));
  expect(result.renditions).toMatchObject([{ state: 'ready', width: 480, height: 270, frames: 30, durationMs: 3_000 }]);
});

test('a video that is black, white or one frame long still has poster, preview and storyboard', async () => {
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

test('a poster is neither a fade nor a title on white where the video has better', async () => {
  const path = clip(
    'fades.mp4',
    ...[...lavfi('color=white:s=320x180:r=25:d=3'), ...lavfi('testsrc2=s=320x180:r=25:d=6')],
    ...['-filter_complex', '[1]fade=in:st=0:d=3,fade=out:st=4:d=2[f];[0][f]concat=n=2', ...x264, '-g', '25'],
  );
  const { of, only } = await render(path, posters.slice(0, 1));
  const at = Number(/The frame at ([\d.]+) s/.exec(only().notes[0] ?? '')?.[1]);
  // Full brightness is from 6 s to 7 s; what is nearly that bright will do.
  expect(at).toBeGreaterThan(4.5);
  expect(at).toBeLessThan(8);
  expect(await brightness(of('poster.webp'))).toBeGreaterThan(60);
});

/** Four quarters, red, green, blue and white, as a clip of so many pixels. */
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
] as const)('a video that is %s is shown so by poster, preview and storyboard', async (_, turn, size, colors) => {
  const coded = quartersClip('tall.mp4', '90x160');
  // A phone's file: coded upright, with a matrix that turns it clockwise.
  const path = turn === 0 ? coded : clip(`turned-${turn}.mp4`, '-i', coded, '-c', 'copy');
  if (turn !== 0) turnMp4(path, turn);
  const { of, result } = await render(path, [...posters.slice(0, 1), preview, storyboard[0]]);
  expect(result.renditions).toMatchObject([{ width: size[0], height: size[1] }, {}, {}]);
  for (const name of ['poster.webp', 'preview.webp', 'storyboard.jpg']) {
    expect(furthest(await quarterColors(of(name)), colors), name).toBeLessThan(24);
  }
});

/** Sets the matrix of an MP4's video track (ISO/IEC 14496-12, 8.3.2) to a clockwise turn. */
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

test('wide samples are squared: a 2:1 sample aspect doubles the width', async () => {
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
    // Colour bars as a camera would have written them: linear light at 203 cd/m² for white, in the wide primaries.
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

test('where ffmpeg cannot map high dynamic range there are flat pictures and a warning, not none', async () => {
  const path = clip('pq.mp4', ...lavfi('testsrc2=s=160x90:r=25:d=1'), ...x264, '-color_trc', 'smpte2084');
  // An ffmpeg that was built without zimg, as far as its list of filters tells.
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

test('a transparent video has posters and a storyboard over black, as it plays, and a transparent preview', async () => {
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

test('interlaced video gives pictures without combs', async () => {
  // Upright bars that move sideways: within one moment all rows are equal, in two woven moments they are not.
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

test('keyframes as far apart as tiles will do: each is taken from its own stretch', async () => {
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
  expect(result.renditions[0]).toMatchObject({ notes: ['6 tiles, 1.0 s apart, from keyframes alone.'] });
  const { data, info } = await sharp(of('storyboard.jpg')).raw().toBuffer({ resolveWithObject: true });
  for (const [index, { x, y, width, height }] of cuesOf(of('storyboard.vtt').toString('utf8')).entries()) {
    const at = ((y + height / 2) * info.width + x + width / 2) * 3;
    expect(furthest([[...data.subarray(at, at + 3)]], [hueRgb[index] ?? []]), `tile ${index}`).toBeLessThan(24);
  }
});

test('a long video with close keyframes has its storyboard made from keyframes alone, and shows the same', async () => {
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
    notes: ['6 tiles, 4.0 s apart, from keyframes alone.'],
  });
  const { data, info } = await sharp(of('storyboard.jpg')).raw().toBuffer({ resolveWithObject: true });
  for (const [index, { x, y, width, height }] of cuesOf(of('storyboard.vtt').toString('utf8')).entries()) {
    const at = ((y + height / 2) * info.width + x + width / 2) * 3;
    expect(furthest([[...data.subarray(at, at + 3)]], [hueRgb[index] ?? []]), `tile ${index}`).toBeLessThan(24);
  }
});

/** Whether each tile shows the colour that the video has then; `seconds` of each. */
async function holdTiles(of: (name: string) => Buffer, hueSeconds: number): Promise<void> {
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

/** Six colours, so many seconds of each, with keyframes at these times alone. */
const keyedAt = (name: string, hueSeconds: number, keys: string, ...more: string[]) =>
  clip(
    name,
    ...[...colors(6), '-filter_complex', `concat=n=6,setpts=PTS*${hueSeconds},fps=25`, ...x264, '-g', '9999'],
    ...['-sc_threshold', '0', '-force_key_frames', keys, ...more],
  );

test('keyframes that become rare after the first minute do not make tiles show what came before them', async () => {
  const dense = Array.from({ length: 35 }, (_, n) => 2 * n).join(',');
  const { of, result } = await render(
    keyedAt('rare-later.mp4', 16, dense),
    storyboard.map((each) => ({ ...each, max_tiles: 48 })),
  );
  expect(result.renditions[0]).toMatchObject({ notes: ['48 tiles, 2.0 s apart, from keyframes but for 13.'] });
  await holdTiles(of, 16);
});

test.each(['mp4', 'mkv', 'avi'])(
  'tiles without a keyframe are sought from the one before (%s), the others are not',
  async (ending) => {
    const path = keyedAt(`some-missing.${ending}`, 5, '0,5,10,13,20,23,26');
    const { of, result } = await render(
      path,
      storyboard.map((each) => ({ ...each, max_tiles: 10 })),
    );
    expect(result.renditions[0]).toMatchObject({
      notes: [expect.stringMatching(/^10 tiles, 3\.0 s apart, from keyframes but for [2-5]\.$/)],
    });
    await holdTiles(of, 5);
  },
);

test('a transport stream, in which one cannot seek well, shows the right pictures all the same', async () => {
  const path = keyedAt('some-missing.ts', 5, '0,5,10,13,20,23,26');
  const { of } = await render(
    path,
    storyboard.map((each) => ({ ...each, max_tiles: 10 })),
  );
  await holdTiles(of, 5);
});

test('a video with hardly a keyframe is decoded once, as a whole', async () => {
  const path = keyedAt('one-key.mp4', 5, '0', '-bf', '3');
  const { of, result } = await render(
    path,
    storyboard.map((each) => ({ ...each, max_tiles: 10 })),
  );
  expect(result.renditions[0]).toMatchObject({ notes: ['10 tiles, 3.0 s apart.'] });
  const passes = result.runs.filter(({ argv }) => !argv.includes('nokey'));
  expect(passes.map(({ argv }) => argv[argv.indexOf('-skip_frame') + 1])).toEqual(['noref']);
  await holdTiles(of, 5);
});

test('where pictures are long apart none is left out: a tile would show the one of before', async () => {
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
  await holdTiles(of, 5);
});

test('a preview begins where the poster was found, and never past the end less its length', async () => {
  const path = clip('colors.mp4', ...colors(6), '-filter_complex', 'concat=n=6', ...x264);
  const { only, of } = await render(path, [{ ...preview, seconds: 2, frame_rate: 5 }]);
  expect(only()).toMatchObject({ durationMs: 2_000 });
  const startS = Number(/From ([\d.]+) s/.exec(only().notes[0] ?? '')?.[1]);
  expect(startS).toBeLessThanOrEqual(4);
  const { data } = await sharp(of('preview.webp')).raw().toBuffer({ resolveWithObject: true });
  expect(furthest([[...data.subarray(0, 3)]], [hueRgb[Math.floor(startS)] ?? []])).toBeLessThan(24);
});

test('a preview of what comes late begins early enough to be whole', async () => {
  const path = clip(
    'late.mp4',
    ...[...lavfi('color=black:s=320x180:r=25:d=4'), ...lavfi('testsrc2=s=320x180:r=25:d=1')],
    ...['-filter_complex', '[0][1]concat=n=2', ...x264],
  );
  const { only } = await render(path, [preview]);
  expect(only()).toMatchObject({ durationMs: 3_000, notes: ['From 2.0 s, 30 frames at 10 a second.'] });
});

test('invariant 5: poster, preview and storyboard made alone, or beside others, have the same bytes', async () => {
  const path = clip('moving.mp4', ...lavfi('testsrc2=s=640x360:r=30:d=5'), ...x264);
  const all = await render(path, [...posters, preview, ...storyboard]);
  for (const preset of [...posters, preview, storyboard[0]]) {
    const alone = await render(path, [preset]);
    const name = `${alone.only().name}.${alone.only().extension}`;
    expect(alone.of(name).equals(all.of(name)), name).toBe(true);
  }
});

test('what cannot be decoded fails with a sentence, and the index of a storyboard with it', async () => {
  const path = clip('colors.mp4', ...colors(6), '-filter_complex', 'concat=n=6', ...x264);
  const { result, folder } = await render(path, [...posters, preview, ...storyboard], { source: { format: 'webm' } });
  expect(result.renditions.map(({ state }) => state)).toEqual(['failed', 'failed', 'failed', 'failed', 'failed']);
  for (const rendition of result.renditions) {
    if (rendition.state === 'failed')
      expect(rendition.reason).toMatch(/could not be made: (no frame of the video|the source) .*\.$/);
  }
  expect(readdirSync(folder)).toEqual([]);
});

test('fault 22: of a video that was cut off, what is there is shown', async () => {
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
  // The last tile is the last frame that there is, as players leave it standing.
  const { data, info } = await sharp(of('storyboard.jpg')).raw().toBuffer({ resolveWithObject: true });
  const last = cuesOf(of('storyboard.vtt').toString('utf8')).at(-1);
  const at = (((last?.y ?? 0) + 10) * info.width + (last?.x ?? 0) + 10) * 3;
  expect(Math.max(...data.subarray(at, at + 3))).toBeGreaterThan(40);
});

test('whoever no longer wants the pictures gets the processor back', async () => {
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
])('%s: frames are found at their times, whatever the container counts from', async (extension, codec) => {
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
  // What the note says of the preview's start is what its first frame shows.
  const note = result.renditions.find(({ name }) => name === 'preview');
  const startS = Number(/From ([\d.]+) s/.exec(note?.state === 'ready' ? (note.notes[0] ?? '') : '')?.[1]);
  const first = await sharp(of('preview.webp')).raw().toBuffer();
  expect(furthest([[...first.subarray(0, 3)]], [hueRgb[Math.floor(startS + 0.05)] ?? []])).toBeLessThan(40);
});

test('the index of a storyboard fails with its picture, so that no player asks for one that there is not', async () => {
  const path = clip('undecoded.mp4', ...lavfi('testsrc2=s=160x90:r=25:d=2'), ...x264);
  const broken = join(folder, 'ffmpeg-that-fails');
  writeFileSync(broken, '#!/bin/sh\nexit 1\n', { mode: 0o755 });
  const none = { ...programs, ffmpeg: { ...programs.ffmpeg, path: broken } };
  for (const presets of [storyboard, [...storyboard].reverse()]) {
    const { result, folder: made } = await render(path, presets, { programs: none });
    expect(result.renditions).toMatchObject([
      { state: 'failed', code: 'corrupt_media' },
      { state: 'failed', code: 'corrupt_media' },
    ]);
    expect(readdirSync(made)).toEqual([]);
  }
});

test('the index of a storyboard is made alone only beside the picture that it belongs to', async () => {
  const path = clip('indexed.mp4', ...lavfi('testsrc2=s=160x90:r=25:d=2'), ...x264);
  const { plan, result: both } = await render(path, storyboard);
  expect(both.renditions).toMatchObject([{ state: 'ready' }, { state: 'ready' }]);
  const [sprite, index] = plan;
  if (!sprite || !index) throw new Error('Two were planned.');
  const source = identifyForTests(path, programs);
  const alone = (beside: readonly PlannedRendition[]) =>
    renderAv(path, source, [index], join(folder, `index-${beside.length}`), {
      limits: defaultLimits,
      programs,
      beside,
    });
  expect((await alone([sprite])).renditions).toMatchObject([{ state: 'ready', extension: 'vtt' }]);
  expect((await alone([])).renditions).toMatchObject([
    { state: 'failed', reason: expect.stringMatching(/the picture that it is the index of is not made/) },
  ]);
});
