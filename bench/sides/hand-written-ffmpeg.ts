import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Program } from '@mds/transcode';

/** One rung as a person would write it into a command: the settings of the service's own ladder, written by hand. */
export interface HandRung {
  readonly name: string;
  readonly width: number;
  readonly height: number;
  readonly bitrate: number;
}

export interface HandLadder {
  readonly source: string;
  readonly rungs: readonly HandRung[];
  readonly crf: number;
  readonly speed: string;
  readonly framesPerSegment: number;
  readonly segmentSeconds: number;
  readonly audioBitrate: number;
}

/**
 * The whole ladder with one command, as in tutorials: decode once, split, scale each, x264 each, and the HLS muxer with a playlist
 * for each.
 */
export async function ladderAtOnce(ffmpeg: Program, ladder: HandLadder, outDir: string): Promise<number> {
  const { rungs } = ladder;
  const split = `[0:v]split=${rungs.length}${rungs.map((_, i) => `[s${i}]`).join('')}`;
  const scales = rungs.map(({ width, height }, i) => `[s${i}]scale=${width}:${height}[v${i}]`);
  for (const { name } of [...rungs, { name: 'audio' }]) await mkdir(join(outDir, name), { recursive: true });
  return timed(ffmpeg, [
    ...['-i', ladder.source, '-filter_complex', [split, ...scales].join(';')],
    ...rungs.flatMap((rung, i) => ['-map', `[v${i}]`, ...x264(ladder, rung, `:v:${i}`)]),
    ...['-map', '0:a', '-c:a', 'aac', '-b:a', `${ladder.audioBitrate}`, '-ac', '2'],
    ...hls(ladder, outDir, [
      ...rungs.map(({ name }, i) => `v:${i},agroup:sound,name:${name}`),
      'a:0,agroup:sound,name:audio',
    ]),
  ]);
}

/** One command for each rung, and one for the audio, one after the other. */
export async function rungByRung(ffmpeg: Program, ladder: HandLadder, outDir: string): Promise<number> {
  let ms = 0;
  for (const rung of ladder.rungs) {
    await mkdir(join(outDir, rung.name), { recursive: true });
    ms += await timed(ffmpeg, [
      ...['-i', ladder.source, '-map', '0:v', '-vf', `scale=${rung.width}:${rung.height}`, ...x264(ladder, rung, ':v')],
      ...hls(ladder, outDir, [`v:0,name:${rung.name}`]),
    ]);
  }
  await mkdir(join(outDir, 'audio'), { recursive: true });
  ms += await timed(ffmpeg, [
    ...['-i', ladder.source, '-map', '0:a', '-c:a', 'aac', '-b:a', `${ladder.audioBitrate}`, '-ac', '2'],
    ...hls(ladder, outDir, ['a:0,name:audio']),
  ]);
  return ms;
}

function x264({ crf, speed, framesPerSegment }: HandLadder, { bitrate }: HandRung, stream: string): string[] {
  return [
    ...[`-c${stream}`, 'libx264', `-preset${stream}`, speed, `-profile${stream}`, 'high', `-crf${stream}`, `${crf}`],
    ...[`-maxrate${stream}`, `${bitrate}`, `-bufsize${stream}`, `${2 * bitrate}`, `-pix_fmt${stream}`, 'yuv420p'],
    ...[`-g${stream}`, `${framesPerSegment}`, `-keyint_min${stream}`, `${framesPerSegment}`],
    ...[`-sc_threshold${stream}`, '0', `-flags${stream}`, '+cgop'],
  ];
}

function hls({ segmentSeconds }: HandLadder, outDir: string, streams: readonly string[]): string[] {
  return [
    ...['-f', 'hls', '-hls_time', `${segmentSeconds}`, '-hls_playlist_type', 'vod', '-hls_segment_type', 'fmp4'],
    ...['-hls_flags', 'independent_segments', '-hls_segment_filename', join(outDir, '%v', '%05d.m4s')],
    ...['-master_pl_name', 'master.m3u8', '-var_stream_map', streams.join(' '), join(outDir, '%v', 'index.m3u8')],
  ];
}

async function timed({ path }: Program, args: readonly string[]): Promise<number> {
  const began = performance.now();
  const child = spawn(path, ['-hide_banner', '-nostdin', '-loglevel', 'error', '-y', ...args], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let output = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw new Error(`ffmpeg ended with ${code}: ${output}`);
  return performance.now() - began;
}
