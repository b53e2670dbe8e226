import { type FileHandle, open } from 'node:fs/promises';
import type { Ratio } from '../../identified.ts';
import { bitrateEncodeReason } from '../../plan.ts';
import { type Mp4Track, timeAt } from './mp4-track.ts';

/** How a copy of the source's video may be used. Reasons are the second half of a sentence: "because …". */
export interface CopyVerdict {
  /** Null if the copy can be a file of its own. */
  readonly notAsFile: string | null;
  /** Null if the copy can also be cut into segments. */
  readonly notAsSegments: string | null;
  /** First frames of its segments; empty if it cannot be cut. */
  readonly starts: readonly number[];
  /** Keyframes for the rungs encoded beside it: those of the copy, including the starts. Empty if it cannot be cut. */
  readonly keyframes: readonly number[];
}

/** A verdict against every use of a copy. */
export function neverCopied(reason: string): CopyVerdict {
  return { notAsFile: reason, notAsSegments: reason, starts: [], keyframes: [] };
}

/** Average distance. With closer keyframes, an encode at a low bit rate would spend its bits on little else. */
const minKeyframeDistanceS = 0.5;
/** ffmpeg takes the keyframe times as one argument, which Linux limits to 128 KiB; each time has 13 bytes. */
const maxKeyframes = 9_000;

/**
 * Judges a copy of the source's video. It must begin at 0 with a frame that needs no other. To be cut into segments, it must
 * have such frames at distances of half to one and a half times the target, which is in seconds.
 */
export async function judgeCopy(track: Mp4Track, frameRate: Ratio, target: number): Promise<CopyVerdict> {
  const { samples, timescale } = track;
  const never = neverCopied;
  if (samples.count === 0) return never('it has no frames');
  if (!track.upright) return never('it is marked as mirrored or rotated by an odd angle');
  if (track.emptyEdit !== 0 || samples.times[0] !== 0) return never('it does not begin at 0 with its first frame');
  const idr = await idrSamples(track);
  if (idr[0] !== 0) return never('it does not begin with a keyframe');

  const framesPerSecond = frameRate.num / frameRate.den;
  const frameOf = (sample: number) => ((samples.times[sample] ?? 0) / timescale) * framesPerSecond;
  const isEven = (sample: number) => Math.abs(frameOf(sample) - Math.round(frameOf(sample))) <= 0.25;
  const uncut = (reason: string): CopyVerdict => ({ ...never(reason), notAsFile: null });
  // By time, not by count: a stream whose beginning has a constant rate may have fewer frames later.
  const end = timeAt(track, samples.count);
  const starts = [0];
  let at = 0;
  const distance = (sample: number) => (frameOf(sample) - frameOf(at)) / framesPerSecond;
  const left = () => end - frameOf(at) / framesPerSecond;
  while (left() > target) {
    const candidates = idr.filter((s) => distance(s) >= 0.5 * target && distance(s) <= 1.5 * target);
    const best = candidates.sort((a, b) => Math.abs(distance(a) - target) - Math.abs(distance(b) - target))[0];
    if (best === undefined) {
      if (left() <= 1.5 * target) break;
      return uncut(`its keyframes do not allow segments of about ${target} s`);
    }
    at = best;
    if (!isEven(at)) return uncut('its frames are not evenly spaced');
    starts.push(Math.round(frameOf(at)));
  }
  if (starts.length > maxKeyframes)
    return uncut('it has too many segments for keyframes at the same frames in all rungs');
  const all = idr.filter(isEven).map((sample) => Math.round(frameOf(sample)));
  const few = all.length <= Math.min(maxKeyframes, Math.max(starts.length, end / minKeyframeDistanceS));
  return { notAsFile: null, notAsSegments: null, starts, keyframes: few ? all : starts };
}

/** NAL unit type of a slice of an IDR picture (ITU-T H.264, 7.4.1.2.4): nothing after it refers to anything before it. */
const idrSlice = 5;
const otherSlice = 1;
/** Enough for the data before the first slice: parameter sets and messages. */
const headBytes = 4096;

/**
 * Samples that are IDR pictures. Containers also mark recovery points within an open group of pictures as keyframes, but the
 * frames after these may refer to earlier ones.
 */
async function idrSamples(track: Mp4Track): Promise<number[]> {
  const { samples, nalLengthBytes } = track;
  const found: number[] = [];
  const file = await open(track.path, 'r');
  try {
    for (let i = 0; i < samples.count; i += 1) {
      if (samples.sync[i] !== 1) continue;
      const type = await firstSliceType(file, samples.offsets[i] ?? 0, samples.sizes[i] ?? 0, nalLengthBytes);
      if (type === idrSlice) found.push(i);
    }
  } finally {
    await file.close();
  }
  return found;
}

async function firstSliceType(file: FileHandle, offset: number, size: number, lengthBytes: number) {
  const head = Buffer.alloc(Math.min(size, headBytes));
  await file.read(head, 0, head.length, offset);
  for (let at = 0; at + lengthBytes < head.length; ) {
    const type = (head[at + lengthBytes] ?? 0) & 31;
    if (type === idrSlice || type === otherSlice) return type;
    at += lengthBytes + head.readUIntBE(at, lengthBytes);
  }
  return null;
}

/** Samples per AAC frame. */
const aacFrame = 1024;

/** Why a copy of the source's AAC cannot be used ("because …"), or null. `bitrate`: that of the container, or null. */
export function judgeAudioCopy(track: Mp4Track, bitrate: number | null): string | null {
  const { samples, emptyEdit, mediaTime, codec, sampleRate, timescale } = track;
  if (codec !== 'mp4a.40.2') return 'it is not plain AAC';
  if (samples.count === 0) return 'it is empty';
  if (emptyEdit !== 0) return 'it does not begin together with the video';
  if (mediaTime > 4 * aacFrame) return 'it begins in the middle';
  // By the position of each frame, not by the duration of the previous one: Matroska rounds times to milliseconds.
  const frame = (aacFrame * timescale) / sampleRate;
  for (let i = 0; i < samples.count; i += 1) {
    if (Math.abs((samples.decodeTimes[i] ?? 0) - i * frame) > frame / 2) return 'it has gaps';
  }
  if (bitrate !== null) return null;
  const bytes = samples.sizes.reduce((sum, size) => sum + size, 0);
  return bitrateEncodeReason((8 * bytes * sampleRate) / (aacFrame * samples.count));
}
