import type { Mp4Track } from './mp4-track.ts';
import { timeAt } from './mp4-track.ts';

/** Audio that lasts longer than the video by less than this stays in its last segment. */
const shortestTailSeconds = 0.4;

/** The samples of an encoded video that segments begin with: those at these frames, and no others. */
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
    if (samples.sync[at] !== 1) throw new Error(`Frame ${frame} is no keyframe, though a segment begins there.`);
    starts.push(at);
  }
  return starts;
}

/** Frames 0, N, 2N… of a video that has so many. */
export function everyFrames(frames: number, every: number): number[] {
  return Array.from({ length: Math.max(1, Math.ceil(frames / every)) }, (_, index) => index * every);
}

/**
 * The samples of an audio track that its segments begin with: the ones nearest to these times in seconds, and where it goes
 * on after the last of them, one every `target` seconds.
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
    if (place >= times.length && end - timeOf(place) < shortestTailSeconds) break;
    starts.push(sample);
    place += 1;
  }
  return starts;
}
