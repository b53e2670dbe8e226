import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { identifyForTests } from '../../../test/identify-for-tests.ts';
import { scratch } from '../../../test/scratch.ts';
import { clipMaker, fastVideo, picture, programsForTests, tone } from '../../../test/video-clips.ts';
import type { Programs } from '../../ffmpeg/programs.ts';
import { type IdentifiedFile, parseIdentified } from '../../identified.ts';
import { defaultLimits } from '../../limits.ts';
import { type PlannedRendition, planRenditions } from '../../plan.ts';
import { parsePresets } from '../../presets/presets.ts';
import type { ReadyRendition, RenderResult } from '../result.ts';
import { runSteps } from './run-steps.ts';
import { videoSteps } from './video.ts';

const files = scratch();
let programs: Programs;
let clip: ReturnType<typeof clipMaker>;
beforeAll(async () => {
  programs = await programsForTests();
  clip = clipMaker(programs, files.folder);
});

const rungs = [
  { name: '180p', width: 320, height: 180, bitrate: 500_000 },
  { name: '90p', width: 160, height: 90, bitrate: 150_000 },
];
const hls = { type: 'hls', rungs, segment_seconds: 2 };
const mp4 = { type: 'mp4', name: 'mp4', width: 320, height: 180, bitrate: 500_000 };

/** The plan for the same source if it did not fit: most clips here are so simple that they would be copied. */
function encodingAll(planned: PlannedRendition): PlannedRendition {
  if (planned.video === null) return planned;
  const { rungs: all, audio } = planned.video;
  const encoded = all.map((rung) => ({ ...rung, mayCopy: false }));
  return { ...planned, video: { ...planned.video, rungs: encoded, audio: audio === 'none' ? audio : 'encode' } };
}

interface Rendered {
  result: RenderResult;
  outDir: string;
  fractions: number[];
}

async function render(
  path: string,
  presets: object[] = [hls, mp4],
  { mayCopy = false, facts, signal }: { mayCopy?: boolean; facts?: IdentifiedFile; signal?: AbortSignal } = {},
): Promise<Rendered> {
  const identified = facts ?? identifyForTests(path, programs);
  const { tracks } = identified;
  if (tracks === null) throw new Error('A clip has tracks.');
  const wanted = planRenditions(identified, parsePresets(presets))
    .filter(({ state }) => state === 'make')
    .map((planned) => (mayCopy ? planned : encodingAll(planned)));
  const source = { ...identified, tracks };
  const outDir = files.outDir();
  const fractions: number[] = [];
  const result = await runSteps(path, source, videoSteps(source, wanted), wanted, outDir, {
    ...{ limits: defaultLimits, programs, onProgress: ({ fraction }) => fractions.push(fraction) },
    ...(signal ? { signal } : {}),
  });
  const ladder = result.renditions.find(({ name }) => name === 'hls');
  // As it is delivered: the master is found under both names.
  if (ladder) symlinkSync('hls', join(outDir, `hls.${ladder.revision}`));
  return { result, outDir, fractions };
}

function ready({ result }: Rendered, name: string): ReadyRendition {
  const found = result.renditions.find((each) => each.name === name);
  if (found?.state !== 'ready') throw new Error(`${name} is not ready: ${JSON.stringify(result.renditions)}`);
  return found;
}

interface Packet {
  time: number;
  key: boolean;
  duration: number;
}

function packets(path: string, stream = 'v:0'): Packet[] {
  const argv = [
    '-v',
    'error',
    '-select_streams',
    stream,
    '-of',
    'json',
    '-show_entries',
    'packet=pts_time,duration_time,flags',
  ];
  const output = execFileSync(programs.ffprobe.path, [...argv, path], { encoding: 'utf8', maxBuffer: 1 << 26 });
  const { packets: found } = JSON.parse(output) as {
    packets: Array<{ pts_time: string; duration_time: string; flags: string }>;
  };
  return found
    .map((p) => ({ time: Number(p.pts_time), key: p.flags.startsWith('K'), duration: Number(p.duration_time) }))
    .sort((a, b) => a.time - b.time);
}

interface Stream {
  codec_name: string;
  width?: number;
  height?: number;
  sample_aspect_ratio?: string;
  pix_fmt?: string;
  color_space?: string;
  color_transfer?: string;
  start_time: string;
  duration: string;
  field_order?: string;
  r_frame_rate: string;
  channels?: number;
  sample_rate?: string;
  tags?: Record<string, string>;
}

function streams(path: string): Stream[] {
  const argv = ['-v', 'error', '-of', 'json', '-show_streams', path];
  return (JSON.parse(execFileSync(programs.ffprobe.path, argv, { encoding: 'utf8' })) as { streams: Stream[] }).streams;
}

/** Decodes everything, and returns what ffmpeg complained of. */
function complaints(path: string, ...argv: string[]): string {
  const all = ['-nostdin', '-v', 'warning', '-i', path, '-map', '0', ...argv, '-f', 'null', '-'];
  return execFileSync('sh', ['-c', '"$@" 2>&1', 'sh', programs.ffmpeg.path, ...all], { encoding: 'utf8' });
}

/** The colour of one point, as three numbers. */
function colourAt(path: string, seconds: number, x: number, y: number): number[] {
  const filter = `crop=2:2:${x}:${y},scale=1:1,format=rgb24`;
  const argv = ['-v', 'error', '-ss', `${seconds}`, '-i', path, '-frames:v', '1', '-vf', filter, '-f', 'rawvideo', '-'];
  return [...execFileSync(programs.ffmpeg.path, argv)].slice(0, 3);
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, n) => total + n, 0);
const durationsOf = (playlist: string) => [...playlist.matchAll(/#EXTINF:([\d.]+),/g)].map(([, text]) => Number(text));

function mainClip() {
  return clip(
    'main.mp4',
    ...picture('640x360', 5),
    ...tone(5, 44_100),
    ...fastVideo,
    '-b:v',
    '3M',
    '-metadata:s:a:0',
    'language=ger',
    '-c:a',
    'aac',
    '-b:a',
    '320k',
    '-ac',
    '2',
  );
}

let once: Promise<Rendered> | undefined;
const main = () => {
  once ??= render(mainClip());
  return once;
};

describe('a video with sound', () => {
  test('ffmpeg plays the master playlist from both of its addresses, and the MP4, without a warning', async () => {
    const rendered = await main();
    const { path, revision } = ready(rendered, 'hls');
    expect(complaints(path)).toBe('');
    expect(complaints(join(rendered.outDir, `hls.${revision}`, 'master.m3u8'))).toBe('');
    expect(complaints(ready(rendered, 'mp4').path)).toBe('');
  });

  test('the master playlist says what players choose by', async () => {
    const rendered = await main();
    const { path, revision, width, height } = ready(rendered, 'hls');
    const master = readFileSync(path, 'utf8');
    expect([width, height]).toEqual([320, 180]);
    expect(master).toMatch(/^#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-INDEPENDENT-SEGMENTS\n/);
    expect(master).toContain(
      `#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="audio",NAME="German",LANGUAGE="de",DEFAULT=YES,AUTOSELECT=YES,CHANNELS="2",URI="../hls.${revision}/audio.m3u8"`,
    );
    for (const { name, width: w, height: h } of rungs) {
      const at = master.indexOf(`\n../hls.${revision}/${name}.m3u8\n`);
      const line = master.slice(0, at).split('\n').at(-1) ?? '';
      expect(line).toMatch(/^#EXT-X-STREAM-INF:BANDWIDTH=\d+,AVERAGE-BANDWIDTH=\d+,/);
      expect(line).toContain(`RESOLUTION=${w}x${h},FRAME-RATE=25.000,AUDIO="audio"`);
      const profile = ['-v', 'error', '-select_streams', 'v', '-show_entries', 'stream=level', '-of', 'csv=p=0'];
      const level = Number(
        execFileSync(programs.ffprobe.path, [...profile, join(rendered.outDir, `hls/${name}.m3u8`)], {
          encoding: 'utf8',
        })
          .trim()
          .split('\n')[0],
      );
      expect(line).toMatch(
        new RegExp(`CODECS="avc1\\.[0-9a-f]{4}${level.toString(16).padStart(2, '0')},mp4a\\.40\\.2"`),
      );
      const bytes =
        ready(rendered, 'hls').files?.filter(
          (f) => /\.m4s$/.test(f.name) && (f.name.startsWith(`${name}/`) || f.name.startsWith('audio/')),
        ) ?? [];
      const average = Number(/AVERAGE-BANDWIDTH=(\d+)/.exec(line)?.[1]);
      const peak = Number(/BANDWIDTH=(\d+)/.exec(line)?.[1]);
      expect(average / ((sum(bytes.map((f) => f.bytes)) * 8) / 5)).toBeCloseTo(1, 1);
      expect(peak).toBeGreaterThanOrEqual(average);
    }
  });

  test('every file has a name that delivery knows and a content type, and the master is the first', async () => {
    const rendered = await main();
    const { files: all, bytes, path } = ready(rendered, 'hls');
    expect(all?.[0]).toMatchObject({ name: 'master.m3u8', path, contentType: 'application/vnd.apple.mpegurl' });
    for (const file of all ?? []) {
      // Lower-case segments and one extension: what the grammar of delivery paths has for files of a rendition.
      expect(file.name).toMatch(/^([a-z0-9][a-z0-9_-]{0,63}\/){0,3}[a-z0-9][a-z0-9_-]{0,63}\.[a-z0-9]{1,5}$/);
      expect(readFileSync(file.path).length, file.name).toBe(file.bytes);
      expect(file.contentType).toBe(
        file.name.endsWith('.m3u8')
          ? 'application/vnd.apple.mpegurl'
          : file.name.startsWith('audio/')
            ? 'audio/mp4'
            : 'video/mp4',
      );
    }
    expect(bytes).toBe(sum((all ?? []).map((file) => file.bytes)));
  });

  test('keyframes lie at the same frames in every rung and in the MP4, one at the start of each segment', async () => {
    const rendered = await main();
    const { outDir } = rendered;
    const lists = ['hls/180p.m3u8', 'hls/90p.m3u8', 'mp4.mp4'].map((file) => packets(join(outDir, file)));
    const times = lists.map((list) => list.map(({ time }) => time));
    expect(times[1]).toEqual(times[0]);
    expect(times[0]).toHaveLength(125);
    expect(times[0]?.[0]).toBe(0);
    const keys = lists.map((list) => list.filter(({ key }) => key).map(({ time }) => time));
    expect(keys).toEqual([
      [0, 2, 4],
      [0, 2, 4],
      [0, 2, 4],
    ]);
  });

  test('playlists, rendition rows and ffprobe agree on durations, to the frame', async () => {
    const rendered = await main();
    for (const name of ['180p', '90p', 'audio']) {
      const text = readFileSync(join(rendered.outDir, 'hls', `${name}.m3u8`), 'utf8');
      const durations = durationsOf(text);
      const found = packets(join(rendered.outDir, 'hls', `${name}.m3u8`), name === 'audio' ? 'a:0' : 'v:0');
      const end = Math.max(...found.map(({ time, duration }) => time + (duration || 0)));
      expect(sum(durations)).toBeCloseTo(end, 2);
      expect(text).toContain('#EXT-X-TARGETDURATION:2\n');
      expect(text).toContain('#EXT-X-PLAYLIST-TYPE:VOD\n');
      expect(text.endsWith('#EXT-X-ENDLIST\n')).toBe(true);
      // Audio is cut at the same times, within a frame of AAC.
      for (const [index, duration] of durations.entries()) {
        expect(Math.abs(duration - ([2, 2, 1][index] ?? 0))).toBeLessThan(name === 'audio' ? 0.05 : 0.000_001);
      }
    }
    for (const { durationMs } of [ready(rendered, 'hls'), ready(rendered, 'mp4')]) {
      expect(Math.abs((durationMs ?? 0) - 5_000)).toBeLessThan(25);
    }
    expect(ready(rendered, 'hls').frames).toBe(125);
  });

  test('each segment can be decoded without the others', async () => {
    const rendered = await main();
    const segments = ready(rendered, 'hls').files?.filter(({ name }) => name.endsWith('.m4s')) ?? [];
    expect(segments).toHaveLength(9);
    for (const { name, path } of segments) {
      const init = readFileSync(join(rendered.outDir, 'hls', name.split('/')[0] ?? '', 'init.mp4'));
      const alone = join(files.folder, 'alone.mp4');
      writeFileSync(alone, Buffer.concat([init, readFileSync(path)]));
      expect(complaints(alone), name).toBe('');
      const first = packets(alone, name.startsWith('audio') ? 'a:0' : 'v:0')[0];
      expect(first?.key, name).toBe(true);
      if (!name.startsWith('audio')) expect(first?.time).toBe(2 * (Number(name.slice(-9, -4)) - 1));
    }
  });

  test('the MP4 is plain: its index first, yuv420p, no tags of the source, none of the encoder', async () => {
    const { path } = ready(await main(), 'mp4');
    const bytes = readFileSync(path);
    expect(bytes.indexOf('moov')).toBeLessThan(bytes.indexOf('mdat'));
    expect(bytes.includes('x264')).toBe(false);
    expect(bytes.includes('Lavf')).toBe(false);
    const [video, audio] = streams(path);
    expect(video).toMatchObject({ codec_name: 'h264', width: 320, height: 180, pix_fmt: 'yuv420p' });
    expect(audio).toMatchObject({ codec_name: 'aac', channels: 2, sample_rate: '44100' });
  });

  test('the same source gives the same bytes again, also on one processor core', async () => {
    const digest = ({ result }: Rendered) =>
      result.renditions.flatMap((each) =>
        each.state !== 'ready'
          ? [each.reason]
          : (each.files ?? [each]).map(({ path }) => createHash('sha256').update(readFileSync(path)).digest('hex')),
      );
    const first = await main();
    const slow = files.file(`#!/bin/sh\nexec taskset -c 0 ${programs.ffmpeg.path} "$@"\n`, 'one-core');
    execFileSync('chmod', ['+x', slow]);
    const all = programs;
    try {
      programs = { ...all, ffmpeg: { ...all.ffmpeg, path: slow } };
      const second = await render(mainClip());
      expect(digest(second)).toEqual(digest(first));
    } finally {
      programs = all;
    }
  });

  test('progress rises from 0 to 1 and never goes back', async () => {
    const { fractions } = await main();
    expect(fractions.length).toBeGreaterThan(2);
    expect([...fractions].sort((a, b) => a - b)).toEqual(fractions);
    expect(fractions.at(-1)).toBe(1);
  });

  test('the report of programs hides paths', async () => {
    const { result } = await main();
    expect(result.runs.length).toBeGreaterThan(3);
    const text = JSON.stringify(result.runs);
    expect(text).not.toContain(files.folder);
    expect(text).toContain('SOURCE');
  });
});

/** Copies a clip, turned: from version 6 on there is an option, and before a tag did it. */
function turned(path: string): string[] {
  const hasOption = Number.parseInt(programs.ffmpeg.version.replace(/^n/, ''), 10) >= 6;
  return hasOption
    ? ['-display_rotation', '-90', '-i', path, '-c', 'copy']
    : ['-i', path, '-c', 'copy', '-metadata:s:v:0', 'rotate=90'];
}

/** How PQ (SMPTE ST 2084) writes a luminance in cd/m², 0 to 1. */
function pq(luminance: number): number {
  const y = (luminance / 10_000) ** 0.1593017578125;
  return ((0.8359375 + 18.8515625 * y) / (1 + 18.6875 * y)) ** 78.84375;
}

describe('sources of every shape', () => {
  test.each([
    ['upright', '180x320', [], [180, 320]],
    ['odd', '321x181', [], [320, 180]],
    ['tiny', '64x36', [], [64, 36]],
  ] as const)('%s', async (name, size, more, [width, height]) => {
    const pixels = size === '321x181' ? 'yuv444p' : 'yuv420p';
    const path = clip(`${name}.mp4`, ...picture(size, 1), ...fastVideo, '-pix_fmt', pixels, ...more);
    const rendered = await render(path);
    expect(streams(ready(rendered, 'mp4').path)[0]).toMatchObject({ width, height, sample_aspect_ratio: '1:1' });
    expect(ready(rendered, 'hls')).toMatchObject({ width, height, frames: 25, durationMs: 1_000 });
    expect(complaints(ready(rendered, 'hls').path)).toBe('');
  });

  test('a rotated video is turned, and not turned again by the player', async () => {
    const flat = clip('flat.mp4', ...picture('320x180', 1), ...fastVideo);
    const path = clip('rotated.mp4', ...turned(flat));
    expect((identifyForTests(path, programs).tracks?.video?.rotation ?? 0) % 180).toBe(90);
    const rendered = await render(path);
    expect(streams(ready(rendered, 'mp4').path)[0]).toMatchObject({ width: 180, height: 320 });
    expect(identifyForTests(ready(rendered, 'mp4').path, programs).tracks?.video?.rotation).toBe(0);
  });

  test('samples that are not square become square', async () => {
    const path = clip('wide.mp4', ...picture('160x180', 1), ...fastVideo, '-vf', 'setsar=2/1');
    const rendered = await render(path);
    const [video] = streams(ready(rendered, 'mp4').path);
    expect(video).toMatchObject({ width: 320, height: 180, sample_aspect_ratio: '1:1' });
  });

  test('a single frame', async () => {
    const path = clip('one-frame.mp4', ...picture('320x180', 1), '-frames:v', '1', ...fastVideo);
    const rendered = await render(path);
    expect(ready(rendered, 'hls')).toMatchObject({ frames: 1, durationMs: 40 });
    expect(packets(ready(rendered, 'mp4').path)).toHaveLength(1);
  });

  test('a changing frame rate becomes a constant one, at the same speed', async () => {
    const path = clip(
      'variable.mkv',
      ...picture('320x180', 4),
      '-vf',
      "select='lt(n,50)+not(mod(n,3))'",
      '-fps_mode',
      'vfr',
      ...fastVideo,
    );
    const rendered = await render(path);
    const distances = packets(ready(rendered, 'mp4').path)
      .map(({ time }, i, all) => time - (all[i - 1]?.time ?? 0))
      .slice(1);
    expect(Math.max(...distances) - Math.min(...distances)).toBeLessThan(0.001);
    expect(Math.abs((ready(rendered, 'mp4').durationMs ?? 0) - 4_000)).toBeLessThan(130);
  });

  test('no audio: a ladder without an audio group', async () => {
    const path = clip('silent.mp4', ...picture('320x180', 3), ...fastVideo);
    const rendered = await render(path);
    const master = readFileSync(ready(rendered, 'hls').path, 'utf8');
    expect(master).not.toMatch(/AUDIO|mp4a/);
    expect(complaints(ready(rendered, 'hls').path)).toBe('');
    expect(streams(ready(rendered, 'mp4').path)).toHaveLength(1);
  });

  test('a sound alone: a master with its audio alone', async () => {
    const path = clip('sound.flac', ...tone(5));
    const rendered = await render(path);
    const master = readFileSync(ready(rendered, 'hls').path, 'utf8');
    expect(master).toMatch(
      /#EXT-X-STREAM-INF:BANDWIDTH=\d+,AVERAGE-BANDWIDTH=\d+,CODECS="mp4a.40.2"\n\.\.\/hls\.[0-9a-f]{8}\/audio\.m3u8\n/,
    );
    expect(complaints(ready(rendered, 'hls').path)).toBe('');
    expect(durationsOf(readFileSync(join(rendered.outDir, 'hls/audio.m3u8'), 'utf8'))).toHaveLength(3);
    expect(rendered.result.renditions).toHaveLength(1);
  });

  test('high dynamic range is mapped: tagged and looking like any other video', async () => {
    const tags = ['-color_primaries', 'bt2020', '-color_trc', 'smpte2084', '-colorspace', 'bt2020nc'];
    // A grey that a screen shows as half of white's code value, beside a highlight of 4,000 cd/m².
    const luma = (luminance: number) => Math.round(64 + 876 * pq(luminance));
    const grey = 203 * 0.5 ** 2.4;
    const graph = `color=black:size=320x180:rate=25:duration=1,format=yuv420p10le,geq=lum=if(lt(X\\,160)\\,${luma(grey)}\\,${luma(4_000)}):cb=512:cr=512`;
    const path = clip('hdr.mp4', '-f', 'lavfi', '-i', graph, '-c:v', 'libx264', '-preset', 'ultrafast', ...tags);
    expect(identifyForTests(path, programs).tracks?.video?.hdr).toBe('pq');
    const rendered = await render(path);
    const [video] = streams(ready(rendered, 'mp4').path);
    expect(video).toMatchObject({ pix_fmt: 'yuv420p', color_space: 'bt709', color_transfer: 'bt709' });
    const [red = 0, green = 0, blue = 0] = colourAt(ready(rendered, 'mp4').path, 0, 100, 100);
    expect(Math.max(red, green, blue) - Math.min(red, green, blue)).toBeLessThan(8);
    expect(Math.abs(red - 0x80)).toBeLessThan(12);
    expect(colourAt(ready(rendered, 'mp4').path, 0, 260, 100)[0]).toBeGreaterThan(200);
  });

  test('interlaced video is made progressive', async () => {
    const path = clip(
      'interlaced.mp4',
      ...picture('320x180', 2, 50),
      '-vf',
      'interlace',
      ...fastVideo,
      '-flags',
      '+ildct+ilme',
      '-x264opts',
      'tff=1',
    );
    const source = identifyForTests(path, programs);
    expect(source.tracks?.video?.interlaced).toBe(true);
    const rendered = await render(path);
    expect(streams(ready(rendered, 'mp4').path)[0]).toMatchObject({ field_order: 'progressive' });
    const comb = (file: string) => {
      const argv = ['-hide_banner', '-nostdin', '-i', file, '-vf', 'idet', '-f', 'null', '-'];
      const text = execFileSync('sh', ['-c', '"$@" 2>&1', 'sh', programs.ffmpeg.path, ...argv], { encoding: 'utf8' });
      // Some versions set the filter up twice, and report of both.
      const found = [...text.matchAll(/Multi frame detection: TFF:\s*(\d+) BFF:\s*(\d+)/g)].at(-1);
      return Number(found?.[1]) + Number(found?.[2]);
    };
    expect(comb(path)).toBeGreaterThan(20);
    expect(comb(ready(rendered, 'mp4').path)).toBeLessThan(comb(path) / 4);
  });

  test('what is transparent is laid over black', async () => {
    const graph =
      'color=red:size=320x180:rate=25:duration=1,format=yuva420p,geq=lum=lum(X\\,Y):cb=cb(X\\,Y):cr=cr(X\\,Y):a=if(lt(X\\,160)\\,255\\,0)';
    const path = clip(
      'alpha.webm',
      '-f',
      'lavfi',
      '-i',
      graph,
      '-c:v',
      'libvpx-vp9',
      '-deadline',
      'realtime',
      '-cpu-used',
      '8',
      '-auto-alt-ref',
      '0',
    );
    const rendered = await render(path);
    const { path: made } = ready(rendered, 'mp4');
    expect(colourAt(made, 0, 40, 90)[0]).toBeGreaterThan(200);
    expect(sum(colourAt(made, 0, 280, 90))).toBeLessThan(30);
  });

  test("standard definition keeps its matrix, and says so; the colours are the source's", async () => {
    const path = clip('red.mp4', '-f', 'lavfi', '-i', 'color=0xC02040:size=320x180:rate=25:duration=1', ...fastVideo);
    const rendered = await render(path);
    expect(streams(ready(rendered, 'mp4').path)[0]).toMatchObject({ color_space: 'smpte170m' });
    const colour = colourAt(ready(rendered, 'mp4').path, 0, 100, 90);
    for (const [index, value] of [0xc0, 0x20, 0x40].entries())
      expect(Math.abs((colour[index] ?? 0) - value)).toBeLessThan(6);
  });
});

describe('timelines', () => {
  /** Black with white from second 2 on, silence with a tone from second 2 on: what is seen and heard must come together. */
  const flash = [
    ...[
      '-f',
      'lavfi',
      '-i',
      "color=black:size=320x180:rate=25:duration=4,drawbox=color=white:t=fill:enable='gte(t,2)'",
    ],
    ...['-f', 'lavfi', '-i', "aevalsrc='if(gte(t,2),sin(2764*t),0)':sample_rate=48000:duration=4"],
  ];

  function flashAt(path: string, ...input: string[]): { seen: number; heard: number } {
    const argv = [...input, '-i', path];
    const run = (...more: string[]) =>
      execFileSync(
        'sh',
        [
          '-c',
          '"$@" 2>&1',
          'sh',
          programs.ffmpeg.path,
          '-hide_banner',
          '-nostdin',
          ...argv,
          ...more,
          '-f',
          'null',
          '-',
        ],
        { encoding: 'utf8' },
      );
    const seen = /black_end:([\d.]+)/.exec(run('-map', '0:v:0', '-vf', 'blackdetect=d=0.1'))?.[1];
    const heard = /silence_end: ([\d.]+)/.exec(run('-map', '0:a:0', '-af', 'silencedetect=n=-40dB:d=0.1'))?.[1];
    return { seen: Number(seen), heard: Number(heard) };
  }

  test.each([
    ['from MPEG-TS, which starts anywhere', 'late.ts', ['-output_ts_offset', '37', '-muxdelay', '0']],
    ['behind an edit list', 'plain.mp4', []],
  ])('picture and sound stay together: %s', async (_, name, more) => {
    const plain = clip('plain.mp4', ...flash, ...fastVideo, '-bf', '2', '-c:a', 'aac');
    const path = clip(name, '-i', plain, '-c', 'copy', ...more);
    // The bundled ffprobe crashes on MPEG-TS: the facts are those of the same streams in MP4.
    const facts = parseIdentified({
      ...identifyForTests(plain, programs),
      format: name === 'late.ts' ? 'mpegts' : 'mp4',
    });
    const rendered = await render(path, [hls, mp4], { facts });
    for (const file of [ready(rendered, 'mp4').path, ready(rendered, 'hls').path]) {
      const { seen, heard } = flashAt(file);
      expect(Math.abs(seen - 2), `${file}: seen at ${seen}`).toBeLessThan(0.09);
      expect(Math.abs(seen - heard), `${file}: seen at ${seen}, heard at ${heard}`).toBeLessThan(0.045);
    }
  });

  test('a sound that begins after the picture, or before it, begins there', async () => {
    const parts = clip('parts.mp4', ...flash, ...fastVideo, '-c:a', 'aac');
    for (const [name, offsets] of [
      ['sound-late.mkv', ['-i', parts, '-itsoffset', '0.7', '-i', parts, '-map', '0:v', '-map', '1:a']],
      ['picture-late.mkv', ['-i', parts, '-itsoffset', '0.7', '-i', parts, '-map', '1:v', '-map', '0:a']],
    ] as const) {
      const rendered = await render(clip(name, ...offsets, '-c', 'copy'));
      const { seen, heard } = flashAt(ready(rendered, 'hls').path);
      const apart = name.startsWith('sound') ? 0.7 : -0.7;
      expect(Math.abs(heard - seen - apart), `${name}: seen at ${seen}, heard at ${heard}`).toBeLessThan(0.05);
      expect(packets(ready(rendered, 'mp4').path)[0]?.time).toBe(0);
    }
  });

  test.each([
    ['longer', 2, 5],
    ['shorter', 5, 2],
  ])('sound that is %s than the picture is kept as it is', async (_, seen, heard) => {
    const path = clip(
      `av-${seen}-${heard}.mp4`,
      ...picture('320x180', seen),
      ...tone(heard),
      ...fastVideo,
      '-c:a',
      'aac',
    );
    const rendered = await render(path);
    const total = (file: string) => sum(durationsOf(readFileSync(join(rendered.outDir, 'hls', file), 'utf8')));
    expect(Math.abs(total('180p.m3u8') - seen)).toBeLessThan(0.041);
    expect(Math.abs(total('audio.m3u8') - heard)).toBeLessThan(0.03);
    expect(complaints(ready(rendered, 'hls').path)).toBe('');
    expect(Math.abs((ready(rendered, 'mp4').durationMs ?? 0) - 5_000)).toBeLessThan(30);
  });
});

describe('a source that already fits', () => {
  const fitting = [
    '-c:v',
    'libx264',
    '-preset',
    'veryfast',
    '-pix_fmt',
    'yuv420p',
    '-maxrate',
    '300k',
    '-bufsize',
    '300k',
  ];

  /** The H.264 of a file as a stream of NAL units, hashed. */
  function nalHash(path: string): string {
    const argv = ['-v', 'error', '-i', path, '-map', '0:v:0', '-c', 'copy', '-f', 'h264', '-'];
    return createHash('sha256')
      .update(execFileSync(programs.ffmpeg.path, argv, { maxBuffer: 1 << 26 }))
      .digest('hex');
  }

  test('is copied, bit by bit, and the other rungs are cut where its keyframes are', async () => {
    const path = clip(
      'fits.mp4',
      ...picture('320x180', 6),
      ...tone(6),
      ...fitting,
      '-force_key_frames',
      '1.6,3.8',
      '-c:a',
      'aac',
    );
    const rendered = await render(path, [hls, mp4], { mayCopy: true });
    expect(ready(rendered, 'hls').notes).toEqual([
      'Video 180p: copied from the source, which already fits.',
      'Video 90p: encoded.',
      'Audio: copied from the source, which already fits.',
    ]);
    expect(nalHash(join(rendered.outDir, 'hls/180p.m3u8'))).toBe(nalHash(path));
    expect(nalHash(ready(rendered, 'mp4').path)).toBe(nalHash(path));
    for (const name of ['180p', '90p']) {
      expect(durationsOf(readFileSync(join(rendered.outDir, `hls/${name}.m3u8`), 'utf8'))).toEqual([1.6, 2.2, 2.2]);
      const keys = packets(join(rendered.outDir, `hls/${name}.m3u8`)).filter(({ key }) => key);
      expect(keys.map(({ time }) => time)).toEqual([0, 1.6, 3.8]);
    }
    expect(complaints(ready(rendered, 'hls').path)).toBe('');
  });

  test('but is damaged is encoded, which conceals what a copy would hand on, and its owner is told', async () => {
    const sound = clip(
      'whole.mp4',
      ...picture('320x180', 6),
      ...tone(6),
      ...fitting,
      '-g',
      '50',
      '-c:a',
      'aac',
      '-movflags',
      'faststart',
    );
    const bytes = readFileSync(sound);
    const media = bytes.indexOf('mdat') + 4;
    for (let at = media + 2_000; at < bytes.length - 2_000; at += 700) bytes.fill(0xa5, at, at + 40);
    const path = join(dirname(sound), 'damaged.mp4');
    writeFileSync(path, bytes);
    const rendered = await render(path, [hls, mp4], { mayCopy: true });
    expect(ready(rendered, 'hls').notes[0]).toMatch(
      /180p: encoded, though the source fits, because parts of it are damaged/,
    );
    expect(ready(rendered, 'mp4').notes[0]).toMatch(/encoded, though the source fits, because parts of it are damaged/);
    expect(rendered.result.warnings).toEqual([expect.stringContaining('Parts of the file are damaged')]);
    expect(complaints(ready(rendered, 'mp4').path)).toBe('');
  });

  test('but has too few keyframes is encoded for the ladder and copied for the MP4, and the notes say why', async () => {
    const path = clip('sparse.mp4', ...picture('320x180', 6), ...fitting, '-g', '1000');
    const rendered = await render(path, [hls, mp4], { mayCopy: true });
    expect(ready(rendered, 'hls').notes[0]).toMatch(/180p: encoded, though the source fits, because its keyframes/);
    expect(ready(rendered, 'mp4').notes[0]).toMatch(/copied/);
    expect(durationsOf(readFileSync(join(rendered.outDir, 'hls/180p.m3u8'), 'utf8'))).toEqual([2, 2, 2]);
  });

  test('but has open groups of pictures is not cut where frames would miss what they refer to', async () => {
    const path = clip(
      'open.mp4',
      ...picture('320x180', 6),
      ...fitting,
      '-g',
      '50',
      '-x264opts',
      'open-gop=1:bframes=3:scenecut=0',
    );
    const rendered = await render(path, [hls, mp4], { mayCopy: true });
    expect(ready(rendered, 'hls').notes[0]).toMatch(/encoded, though the source fits/);
  });
});

describe('failures', () => {
  test('a source that is cut off is rendered as far as it goes, with a warning', async () => {
    const whole = clip('whole.mkv', ...picture('320x180', 6), ...tone(6), ...fastVideo, '-c:a', 'aac');
    const bytes = readFileSync(whole);
    const cut = files.file(bytes.subarray(0, bytes.length / 2), 'cut.mkv');
    const rendered = await render(cut, [hls, mp4], { facts: identifyForTests(whole, programs) });
    expect(rendered.result.warnings.join()).toMatch(/Only \d\.\d s of 6\.\d s could be decoded/);
    expect(complaints(ready(rendered, 'hls').path)).toBe('');
    expect(ready(rendered, 'mp4').durationMs).toBeLessThan(5_000);
  });

  test('an abort ends ffmpeg at once and rejects', async () => {
    const path = clip('long.mp4', ...picture('640x360', 60, 30), ...fastVideo);
    const controller = new AbortController();
    const began = Date.now();
    const slow = [{ ...hls, speed: 'slower' }];
    const rendering = render(path, slow, { signal: controller.signal });
    setTimeout(() => controller.abort(), 700);
    await expect(rendering).rejects.toMatchObject({ name: 'RenderError', code: 'aborted' });
    expect(Date.now() - began).toBeLessThan(4_000);
  });

  test('a source that turns out not to be decodable fails with a sentence, and leaves nothing', async () => {
    const good = clip('good.mp4', ...picture('320x180', 1), ...fastVideo, '-movflags', '+faststart', '-b:v', '3M');
    const bytes = readFileSync(good);
    const bad = files.file(bytes.subarray(0, 600), 'cut.mp4');
    const identified = identifyForTests(good, programs);
    const wanted = planRenditions(identified, parsePresets([hls, mp4])).filter(({ state }) => state === 'make');
    const { tracks } = identified;
    if (tracks === null) throw new Error('A clip has tracks.');
    const source = { ...identified, tracks };
    const outDir = files.outDir();
    const result = await runSteps(bad, source, videoSteps(source, wanted), wanted, outDir, {
      limits: defaultLimits,
      programs,
    });
    for (const rendition of result.renditions) {
      expect(rendition).toMatchObject({ state: 'failed', code: 'corrupt_media' });
    }
    expect(execFileSync('ls', ['-A', outDir], { encoding: 'utf8' })).toBe('');
    expect(result.runs.at(-1)?.outcome).toMatch(/exited/);
  });
});
