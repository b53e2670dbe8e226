import type { AudioTrack as AnyTrack, IdentifiedFile } from '../../identified.ts';
import { sourceOptions } from '../input.ts';

type Source = Pick<IdentifiedFile, 'format'>;
type AudioTrack = Pick<AnyTrack, 'index' | 'channels' | 'sampleRate'>;

/** The shape that a track is converted to before it is measured or encoded, the same for both. */
export interface AudioShape {
  /** Hertz. */
  readonly sampleRate: number;
  readonly channels: 1 | 2;
}

/** Bits per second for a shape. `bitrate` is for two channels; one gets half. */
export function bitrateFor({ channels }: AudioShape, bitrate: number): number {
  return Math.max(8_000, Math.round((bitrate * channels) / 2));
}

/** One or two channels at 48 kHz, or at 44.1 kHz if the source's rate is a multiple of 11.025 kHz. */
export function audioShape({ channels, sampleRate }: AudioTrack): AudioShape {
  return { sampleRate: sampleRate % 11_025 === 0 ? 44_100 : 48_000, channels: channels === 1 ? 1 : 2 };
}

/**
 * Measures loudness and true peak by EBU R 128. Standard output has a block of `lavfi.r128.…` for every 100 ms; the last one
 * counts. `countFile` gets the number of measured samples (see {@link parseSampleCount}).
 * @param repeatedS repeats the audio for this many seconds, because it is too short to be measured once
 */
export function measureArgs(
  path: string,
  source: Source,
  track: AudioTrack,
  options: { shape: AudioShape; countFile: string; repeatedS?: number },
): string[] {
  const { shape, countFile, repeatedS } = options;
  const repeated = repeatedS === undefined ? [] : ['aloop=loop=-1:size=2000000000', `atrim=duration=${repeatedS}`];
  const measured = ['ebur128=metadata=1:peak=true', 'ametadata=mode=print:file=-', 'asetnsamples=n=480000:p=0'];
  return [
    ...input(path, source, track),
    ...['-af', [...shaped(track, shape), ...repeated, ...measured].join(',')],
    ...['-c:a', 'pcm_s16le', '-f', 'framecrc', countFile],
  ];
}

/** The number of samples that {@link measureArgs} counted: the sum of the durations, in the fourth column. */
export function parseSampleCount(framecrc: string): number {
  let samples = 0;
  for (const line of framecrc.split('\n')) {
    if (line.startsWith('#') || line === '') continue;
    samples += Number(line.split(',')[3]);
  }
  return samples;
}

/** AAC-LC in MP4 with its index first, without title, picture or date. */
export function encodeAudioArgs(
  path: string,
  source: Source,
  track: AudioTrack,
  options: { shape: AudioShape; gainDb: number; bitrate: number; file: string },
): string[] {
  const { shape, gainDb, bitrate, file } = options;
  const gain = gainDb === 0 ? [] : [`volume=${gainDb.toFixed(2)}dB:precision=float`];
  return [
    ...input(path, source, track),
    ...['-af', [...shaped(track, shape), ...gain].join(',')],
    ...['-c:a', 'aac', '-profile:a', 'aac_low', '-b:a', String(bitrate), '-flags:a', '+bitexact'],
    ...m4a(file),
  ];
}

/** Like {@link encodeAudioArgs}, but copies the stream without encoding it again. */
export function copyAudioArgs(path: string, source: Source, track: AudioTrack, file: string): string[] {
  return [...input(path, source, track), '-c:a', 'copy', ...m4a(file)];
}

/** One channel, the mean of all, as 16-bit samples at the source's own rate on standard output. */
export function monoArgs(path: string, source: Source, track: AudioTrack): string[] {
  const mean = Array.from({ length: track.channels }, (_, channel) => `${1 / track.channels}*c${channel}`).join('+');
  const filters = [`aresample=${track.sampleRate}:async=1:first_pts=0`, `pan=mono|c0=${mean}`];
  return [...input(path, source, track), ...['-af', filters.join(','), '-c:a', 'pcm_s16le', '-f', 's16le', 'pipe:1']];
}

function input(path: string, source: Source, { index }: AudioTrack): string[] {
  return [...sourceOptions(source), '-i', path, '-map', `0:${index}`];
}

/**
 * Starts at 0, without gaps, in 32-bit floating point: there a downmix of many channels may exceed full scale, until the gain
 * brings it back below. The coefficients are those of ITU-R BS.775, without the low-frequency channel.
 */
function shaped({ channels }: AudioTrack, shape: AudioShape): string[] {
  const layout = shape.channels === 1 ? 'mono' : 'stereo';
  const common = [
    `aresample=${shape.sampleRate}:async=1:first_pts=0:osf=fltp`,
    `aformat=sample_fmts=fltp:channel_layouts=${layout}`,
  ];
  // Beyond 7.1 there is no standard layout and so no downmix. The first two channels are front channels in all known layouts.
  return channels > 8 ? ['pan=stereo|c0=c0|c1=c1', ...common] : common;
}

function m4a(file: string): string[] {
  return [
    ...['-map_metadata', '-1', '-map_chapters', '-1', '-fflags', '+bitexact'],
    ...['-movflags', '+faststart', '-f', 'ipod', file],
  ];
}
