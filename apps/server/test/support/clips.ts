import { execFile } from 'node:child_process';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { findPrograms } from '@mds/transcode';

/** A clip of ffmpeg's test picture, and perhaps a tone. */
export interface ClipOptions {
  width: number;
  height: number;
  seconds: number;
  frameRate: number;
  sound: boolean;
}

let folder: Promise<string> | undefined;

/** Makes an H.264 clip in MP4. @returns its path, in a temporary folder */
export async function makeClip({ width, height, seconds, frameRate, sound }: ClipOptions): Promise<string> {
  const { ffmpeg } = await findPrograms({});
  folder ??= mkdtemp(join(tmpdir(), 'mds-clips-'));
  const path = join(await folder, `${width}x${height}-${seconds}s-${frameRate}${sound ? '-sound' : ''}.mp4`);
  const picture = ['-f', 'lavfi', '-i', `testsrc2=size=${width}x${height}:rate=${frameRate}:duration=${seconds}`];
  const tone = sound ? ['-f', 'lavfi', '-i', `sine=frequency=440:sample_rate=48000:duration=${seconds}`] : [];
  const video = ['-c:v', 'libx264', '-preset', 'ultrafast', '-pix_fmt', 'yuv420p', '-g', `${frameRate}`];
  const audio = sound ? ['-c:a', 'aac', '-ac', '2'] : [];
  await promisify(execFile)(ffmpeg.path, [
    '-nostdin',
    '-loglevel',
    'error',
    '-y',
    ...picture,
    ...tone,
    ...video,
    ...audio,
    path,
  ]);
  return path;
}
