import { type FileHandle, open } from 'node:fs/promises';
import type { Ratio } from '../../identified.ts';
import { whyTooManyBits } from '../../plan.ts';
import { type Mp4Track, timeAt } from './mp4-track.ts';

/** Whether a copy of the source's video can stand in for an encode. Reasons are the second half of a sentence: "because …". */
export interface CopyVerdict {
  /** Null: it can be a file of its own. */
  readonly notAsFile: string | null;
  /** Null: it can be cut into segments, too. */
  readonly notAsSegments: string | null;
  /** Frames that its segments begin with; empty where it cannot be cut. */
  readonly starts: readonly number[];
  /** Frames at which what is encoded beside it has its keyframes: its own, the starts among them. Empty where it cannot be cut. */
  readonly keyframes: readonly number[];
}

/** A verdict against a copy, whatever it is for. */
export function neverCopied(reason: string): CopyVerdict {
  return { notAsFile: reason, notAsSegments: reason, starts: [], keyframes: [] };
}

/** On average: where a copy has its keyframes closer together, an encode at a low bit rate would be made of little else. */
const closestKeyframesSeconds = 0.5;
/** ffmpeg takes the times of keyframes as one word, of which Linux allows 128 KiB: 13 bytes for each. */
const mostKeyframes = 9_000;

/**
 * Looks at a copy of the source's video: does it begin at 0 with a picture that needs no other, and are there such pictures at
 * distances of half to one and a half times the target, in seconds, so that segments can begin with them?
 */
export async function judgeCopy(track: Mp4Track, frameRate: Ratio, target: number): Promise<CopyVerdict> {
  const { samples, timescale } = track;
  const never = neverCopied;
  if (samples.count === 0) return never('it has no frames');
  if (!track.upright) return never('it is marked to be shown mirrored or turned by an odd angle');
  if (track.emptyEdit !== 0 || samples.times[0] !== 0) return never('it does not begin at 0 with its first frame');
  const idr = await idrSamples(track);
  if (idr[0] !== 0) return never('it does not begin with a keyframe');

  const framesPerSecond = frameRate.num / frameRate.den;
  const frameOf = (sample: number) => ((samples.times[sample] ?? 0) / timescale) * framesPerSecond;
  const isEven = (sample: number) => Math.abs(frameOf(sample) - Math.round(frameOf(sample))) <= 0.25;
  const uncut = (reason: string): CopyVerdict => ({ ...never(reason), notAsFile: null });
  // By time, not by count: a stream that was taken for a constant rate by its beginning may have fewer frames later.
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
  if (starts.length > mostKeyframes)
    return uncut('it has too many segments for keyframes at the same frames in all rungs');
  const all = idr.filter(isEven).map((sample) => Math.round(frameOf(sample)));
  const few = all.length <= Math.min(mostKeyframes, Math.max(starts.length, end / closestKeyframesSeconds));
  return { notAsFile: null, notAsSegments: null, starts, keyframes: few ? all : starts };
}

/** Type of a NAL unit that is a piece of an instantaneous decoder refresh (ITU-T H.264, 7.4.1.2.4): nothing after it refers back. */
const idrSlice = 5;
const otherSlice = 1;
/** Enough for what comes before the first slice: parameter sets and messages. */
const headBytes = 4096;

/**
 * Samples that are IDR pictures. Containers also call recovery points within an open group of pictures keyframes: the frames
 * that follow these may refer to what came before.
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

/** Samples of AAC in a frame of it. */
const aacFrame = 1024;

/**
 * Why a copy of the source's AAC cannot stand in for an encode ("because …"), or null where it can. `bitrate`: what its container
 * says of it, null where it does not.
 */
export function judgeAudioCopy(track: Mp4Track, bitrate: number | null): string | null {
  const { samples, emptyEdit, mediaTime, codec, sampleRate, timescale } = track;
  if (codec !== 'mp4a.40.2') return 'it is not plain AAC';
  if (samples.count === 0) return 'it is empty';
  if (emptyEdit !== 0) return 'it does not begin with the video';
  if (mediaTime > 4 * aacFrame) return 'it begins in the middle';
  // By where each frame lies, not by how long the one before lasts: Matroska rounds times to milliseconds.
  const frame = (aacFrame * timescale) / sampleRate;
  for (let i = 0; i < samples.count; i += 1) {
    if (Math.abs((samples.decodeTimes[i] ?? 0) - i * frame) > frame / 2) return 'it has gaps';
  }
  if (bitrate !== null) return null;
  const bytes = samples.sizes.reduce((sum, size) => sum + size, 0);
  return whyTooManyBits((8 * bytes * sampleRate) / (aacFrame * samples.count));
}
