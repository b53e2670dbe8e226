import type { Mp4Track } from './mp4-track.ts';
import { timeAt } from './mp4-track.ts';

/** If audio exceeds the video by less than this, the rest stays in the last segment. */
const minTailSeconds = 0.4;

/** The samples of an encoded video at these frames; segments begin with them. */
export function startsAtFrames(track: Mp4Track, frames: readonly number[], framesPerSecond: number): number[] {
  const { samples, timescale } = track;
  const starts: number[] = [];
  for (const frame of frames) {
    const time = (frame / framesPerSecond) * timescale;
    const near = timescale / framesPerSecond / 2;
    const from = starts.at(-1) ?? 0;
    let at = from;
    while (at < samples.count && Math.abs((samples.times[at] ?? 0) - time) > near) at += 1;
    if (at === samples.count) break;
    if (samples.sync[at] !== 1) throw new Error(`A segment begins at frame ${frame}, which is not a keyframe.`);
    starts.push(at);
  }
  return starts;
}

/** Frames 0, N, 2N… of a video with that many frames. */
export function everyFrames(frames: number, every: number): number[] {
  return Array.from({ length: Math.max(1, Math.ceil(frames / every)) }, (_, index) => index * every);
}

/**
 * The first samples of an audio track's segments: the ones nearest to these times in seconds. If the audio continues after the
 * last of them, one every `target` seconds follows.
 */
export function audioStarts(track: Mp4Track, times: readonly number[], target: number): number[] {
  const { samples, timescale } = track;
  const starts = [0];
  let place = 1;
  const timeOf = (index: number) => times[index] ?? (times.at(-1) ?? 0) + (index - times.length + 1) * target;
  const end = timeAt(track, samples.count);
  for (let sample = 1; sample < samples.count; sample += 1) {
    const middle = (samples.times[sample] ?? 0) + (samples.durations[sample] ?? 0) / 2;
    if (middle / timescale <= timeOf(place)) continue;
    if (place >= times.length && end - timeOf(place) < minTailSeconds) break;
    starts.push(sample);
    place += 1;
  }
  return starts;
}
