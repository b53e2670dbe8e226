import { execFileSync } from 'node:child_process';
import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { Programs } from '../src/ffmpeg/programs.ts';
import type { IdentifiedFile } from '../src/identified.ts';
import { defaultLimits } from '../src/limits.ts';
import { type PlannedRendition, planRenditions } from '../src/plan.ts';
import { parsePresets } from '../src/presets/presets.ts';
import { runSteps } from '../src/render/av/run-steps.ts';
import { videoSteps } from '../src/render/av/video.ts';
import type { ReadyRendition, RenderResult } from '../src/render/result.ts';
import { identifyForTests } from './identify-for-tests.ts';
import { scratch } from './scratch.ts';
import { clipMaker, programsForTests } from './video-clips.ts';

/** The programs for these tests. */
export const programs: Programs = await programsForTests();

export const rungs = [
  { name: '180p', width: 320, height: 180, bitrate: 500_000 },
  { name: '90p', width: 160, height: 90, bitrate: 150_000 },
];
export const hls = { type: 'hls', rungs, segment_seconds: 2 };
export const mp4 = { type: 'mp4', name: 'mp4', width: 320, height: 180, bitrate: 500_000 };

/** Changes a plan so that everything is encoded: most clips of these tests are so simple that they would be copied. */
function encodingAll(planned: PlannedRendition): PlannedRendition {
  if (planned.video === null) return planned;
  const { rungs: all, audio } = planned.video;
  const encoded = all.map((rung) => ({ ...rung, encodedBecause: 'the test requires it' }));
  const audioPlan = audio === 'none' ? {} : { audio: 'encode' as const, audioBecause: 'the test requires it' };
  return { ...planned, video: { ...planned.video, rungs: encoded, ...audioPlan } };
}

export interface RenderedVideo {
  result: RenderResult;
  outDir: string;
  fractions: number[];
}

export interface VideoRenderOptions {
  mayCopy?: boolean;
  facts?: IdentifiedFile;
  signal?: AbortSignal;
  programs?: Programs;
  /** The renditions to make; all others exist already. */
  only?: string;
}

/** Makes clips, each once per test file, and renders their ladders and MP4 files. */
export function renderedVideos() {
  const files = scratch();
  const clip = clipMaker(programs, files.folder);

  async function render(
    path: string,
    presets: object[] = [hls, mp4],
    { mayCopy = false, facts, signal, programs: run = programs, only }: VideoRenderOptions = {},
  ): Promise<RenderedVideo> {
    const identified = facts ?? identifyForTests(path, programs);
    const { tracks } = identified;
    if (tracks === null) throw new Error('A clip has tracks.');
    const planned = planRenditions(identified, parsePresets(presets))
      .filter(({ state }) => state === 'make')
      .map((each) => (mayCopy ? each : encodingAll(each)));
    const wanted = planned.filter(({ name }) => only === undefined || name === only);
    const beside = planned.filter((each) => !wanted.includes(each));
    const source = { ...identified, tracks };
    const outDir = files.outDir();
    const fractions: number[] = [];
    const result = await runSteps(path, source, videoSteps(source, wanted, beside), wanted, outDir, {
      ...{ limits: defaultLimits, programs: run, onProgress: ({ fraction }) => fractions.push(fraction) },
      ...(signal ? { signal } : {}),
    });
    const ladder = result.renditions.find(({ name }) => name === 'hls');
    // As in delivery, the master is available under both names.
    if (ladder) symlinkSync('hls', join(outDir, `hls.${ladder.revision}`));
    return { result, outDir, fractions };
  }

  return { files, clip, render };
}

/** The rendition with this name; throws if it was not made. */
export function ready({ result }: RenderedVideo, name: string): ReadyRendition {
  const found = result.renditions.find((each) => each.name === name);
  if (found?.state !== 'ready') throw new Error(`${name} is not ready: ${JSON.stringify(result.renditions)}`);
  return found;
}

export interface Packet {
  time: number;
  key: boolean;
  duration: number;
}

/** The packets of a stream in presentation order. */
export function packets(path: string, stream = 'v:0'): Packet[] {
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

export interface Stream {
  codec_name: string;
  width?: number;
  height?: number;
  sample_aspect_ratio?: string;
  pix_fmt?: string;
  color_space?: string;
  color_transfer?: string;
  color_primaries?: string;
  color_range?: string;
  start_time: string;
  duration: string;
  field_order?: string;
  r_frame_rate: string;
  channels?: number;
  sample_rate?: string;
  bit_rate?: string;
  tags?: Record<string, string>;
}

export function streams(path: string): Stream[] {
  const argv = ['-v', 'error', '-of', 'json', '-show_streams', path];
  return (JSON.parse(execFileSync(programs.ffprobe.path, argv, { encoding: 'utf8' })) as { streams: Stream[] }).streams;
}

/** Decodes everything and returns ffmpeg's warnings. */
export function ffmpegWarnings(path: string, ...argv: string[]): string {
  const all = ['-nostdin', '-v', 'warning', '-i', path, '-map', '0', ...argv, '-f', 'null', '-'];
  return execFileSync('sh', ['-c', '"$@" 2>&1', 'sh', programs.ffmpeg.path, ...all], { encoding: 'utf8' });
}

/** The colour of one point, as three numbers. */
export function colourAt(path: string, seconds: number, x: number, y: number): number[] {
  const filter = `crop=2:2:${x}:${y},scale=1:1,format=rgb24`;
  const argv = ['-v', 'error', '-ss', `${seconds}`, '-i', path, '-frames:v', '1', '-vf', filter, '-f', 'rawvideo', '-'];
  return [...execFileSync(programs.ffmpeg.path, argv)].slice(0, 3);
}

export const sum = (numbers: readonly number[]) => numbers.reduce((total, n) => total + n, 0);
/** Durations in seconds of the segments of a playlist. */
export const durationsOf = (playlist: string) =>
  [...playlist.matchAll(/#EXTINF:([\d.]+),/g)].map(([, text]) => Number(text));
