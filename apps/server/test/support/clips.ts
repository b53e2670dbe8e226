import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdtemp, rename } from 'node:fs/promises';
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

/** All files of a run share its clips. A process that belongs to no run, such as a benchmark, has a folder of its own. */
let folder: Promise<string> | undefined;

/** Makes an H.264 clip in MP4, once in a run. @returns its path, for reading only */
export async function makeClip({ width, height, seconds, frameRate, sound }: ClipOptions): Promise<string> {
  folder ??= Promise.resolve(process.env['MDS_TEST_RUN_FOLDER'] ?? mkdtemp(join(tmpdir(), 'mds-clips-')));
  const path = join(await folder, `${width}x${height}-${seconds}s-${frameRate}${sound ? '-sound' : ''}.mp4`);
  if (existsSync(path)) return path;
  const { ffmpeg } = await findPrograms({});
  const picture = ['-f', 'lavfi', '-i', `testsrc2=size=${width}x${height}:rate=${frameRate}:duration=${seconds}`];
  const tone = sound ? ['-f', 'lavfi', '-i', `sine=frequency=440:sample_rate=48000:duration=${seconds}`] : [];
  const video = ['-c:v', 'libx264', '-preset', 'ultrafast', '-pix_fmt', 'yuv420p', '-g', `${frameRate}`];
  const audio = sound ? ['-c:a', 'aac', '-ac', '2'] : [];
  // Renamed when it is complete: another process may look for it.
  const unfinished = join(await folder, `${randomUUID()}.mp4`);
  const how = ['-nostdin', '-loglevel', 'error', '-y'];
  await promisify(execFile)(ffmpeg.path, [...how, ...picture, ...tone, ...video, ...audio, unfinished]);
  await rename(unfinished, path);
  return path;
}
