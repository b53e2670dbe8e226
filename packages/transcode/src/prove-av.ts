import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sourceOptions } from './ffmpeg/input.ts';
import type { Programs } from './ffmpeg/programs.ts';
import { runProgram } from './ffmpeg/run.ts';
import type { Format } from './formats.ts';
import type { Tracks } from './identified.ts';
import type { EngineLimits } from './limits.ts';

/** A decoded picture, 8 bits a channel, rows without padding. */
export interface DecodedPicture {
  readonly data: Uint8Array;
  readonly width: number;
  readonly height: number;
  readonly channels: number;
}

const sampleRate = 8_000;
const toneHz = 1_000;
/** The share of the energy that must lie at the tone; noise and silence have nearly none there. */
const toneShare = 0.8;
/** Mean squared amplitude relative to full scale: far above silence, far below the samples' level. */
const audibleEnergy = 1e-4;

/** Decodes a sample's first frame and its audio. Returns the frame for a colour check; each audio track must be the tone. */
export async function decodeSample(
  path: string,
  tracks: Tracks,
  format: Format,
  { programs, limits }: { programs: Programs; limits: EngineLimits },
): Promise<DecodedPicture | null> {
  const cwd = await mkdtemp(join(tmpdir(), 'mds-prove-'));
  const { video } = tracks;
  // One run for everything: the frame goes to the pipe, each audio track to a file.
  const picture = video && [
    '-map',
    `0:${video.index}`,
    '-frames',
    '1',
    '-pix_fmt',
    'rgb24',
    '-f',
    'rawvideo',
    'pipe:1',
  ];
  const tones = tracks.audio.map(({ index }) => ({ index, file: `tone-${index}` }));
  const audioOutputs = tones.flatMap(({ index, file }) => [
    ...['-map', `0:${index}`, '-ac', '1', '-ar', String(sampleRate), '-f', 'f32le', file],
  ]);
  const wallMs = limits.identifyTimeoutMs;
  try {
    const argv = [
      '-nostdin',
      '-hide_banner',
      '-loglevel',
      'error',
      ...sourceOptions({ format: format.id }),
      '-i',
      path,
    ];
    const { stdout } = await runProgram(programs.ffmpeg, [...argv, ...(picture ?? []), ...audioOutputs], {
      step: 'prove',
      cwd,
      limits: { wallMs, cpuMs: wallMs, memoryBytes: limits.maxMemoryBytes, stallMs: wallMs },
      hide: { [path]: 'the sample' },
    });
    for (const { file } of tones) assertTone(await readFile(join(cwd, file)));
    if (video === null) return null;
    const { codedWidth: width, codedHeight: height } = video;
    if (stdout.length !== width * height * 3) throw new Error('The sample decodes to the wrong size.');
    return { data: stdout, width, height, channels: 3 };
  } finally {
    await rm(cwd, { recursive: true, force: true });
  }
}

/** Throws unless the audio is the samples' tone. */
export function assertTone(pcm: Buffer): void {
  const count = Math.floor(pcm.length / 4);
  let energy = 0;
  let sine = 0;
  let cosine = 0;
  for (let index = 0; index < count; index++) {
    const value = pcm.readFloatLE(index * 4);
    const angle = (2 * Math.PI * toneHz * index) / sampleRate;
    energy += value * value;
    sine += value * Math.sin(angle);
    cosine += value * Math.cos(angle);
  }
  if (count === 0 || energy / count < audibleEnergy) throw new Error('The sample decodes to silence.');
  const share = (2 * (sine * sine + cosine * cosine)) / (count * energy);
  if (share < toneShare) throw new Error('The sample does not decode to its tone.');
}
