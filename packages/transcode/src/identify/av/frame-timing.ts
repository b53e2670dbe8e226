import type { Ratio, VideoTrack } from '../../identified.ts';
import type { ProbedPacket, Prober } from './probe.ts';

/** Twenty seconds at 30 frames a second: enough to meet a phone's or a screen recorder's changes of pace. */
const packetsLookedAt = 600;
/** Frames that H.264 and HEVC may hold back before they are shown. */
const mostReordered = 16;
/** Containers round times: Matroska to a millisecond, and two roundings may add up. */
const roundingS = 0.0021;
/** Frame rates that no camera has are mistakes of a container. */
const maxFrameRate = 1_000;

/** Where else a track whose rate changes is looked at, as shares of its duration, and how many packets there. */
const furtherPlaces = [0.2, 0.4, 0.6, 0.8];
const packetsAtPlace = 150;
/** Of all distances between frames: as many are of one length before it counts as that of moving parts. */
const leastShare = 0.1;
const leastGaps = 3;
/** Rates that cameras and screen recorders have. */
const usualRates: readonly Ratio[] = [
  ...[10, 12, 15, 20, 24, 25, 30, 48, 50, 60, 90, 100, 120].map((num) => ({ num, den: 1 })),
  ...[24_000, 30_000, 60_000, 120_000].map((num) => ({ num, den: 1_001 })),
];
/** Two rates this close are the same: 30 and 30000/1001 differ by a thousandth. */
const sameRate = 0.000_4;
/** For a rate that was measured from few or rounded times. */
const nearRate = 0.015;

/**
 * The frame rate, and whether it changes, by the times of the first packets: what containers say of it is often a nominal or
 * a guessed rate. Where it changes, the rate is that of the parts that move, for which other places are looked at as well.
 * `nominal`: the rate by which all times can be written, as the container or ffprobe guesses it.
 * @throws ProgramError
 */
export async function frameTiming(
  prober: Pick<Prober, 'packets'>,
  track: VideoTrack,
  nominal: Ratio | null,
): Promise<Pick<VideoTrack, 'frameRate' | 'variableFrameRate'>> {
  const read = async (range: { fromS?: number; most: number }) => {
    const packets: ProbedPacket[] = [];
    await prober.packets(track.index, (packet) => packets.push(packet), range);
    return timesOf(packets, range.most);
  };
  const times = await read({ most: packetsLookedAt });
  const judged = judge(times, track.frameRate, nominal);
  if (!judged.variableFrameRate) return judged;
  const gaps = gapsOf(times);
  for (const share of furtherPlaces) {
    const fromS = (track.startMs + (track.durationMs ?? 0) * share) / 1_000;
    if (fromS > (times.at(-1) ?? 0)) gaps.push(...gapsOf(await read({ fromS, most: packetsAtPlace })));
  }
  return { ...judged, frameRate: movingRate(gaps, nominal) ?? judged.frameRate };
}

/** Times in seconds, rising: those of decoding, which have no holes, or where the container has none, those of showing. */
function timesOf(packets: readonly ProbedPacket[], most: number): number[] {
  const decoding = packets.flatMap(({ dts }) => dts ?? []);
  if (decoding.length === packets.length) return decoding.sort((a, b) => a - b);
  const showing = packets.flatMap(({ pts }) => pts ?? []).sort((a, b) => a - b);
  // Frames between the last ones may be among the packets that were not looked at.
  return packets.length < most ? showing : showing.slice(0, -mostReordered);
}

function gapsOf(times: readonly number[]): number[] {
  return times.slice(1).map((time, index) => time - (times[index] ?? time));
}

/** Of {@link frameTiming}, what the beginning tells: `times` in seconds, rising. */
function judge(
  times: readonly number[],
  said: Ratio,
  nominal: Ratio | null,
): Pick<VideoTrack, 'frameRate' | 'variableFrameRate'> {
  const gaps = gapsOf(times);
  const usual = median(gaps.filter((gap) => gap > 0));
  if (usual === null) return { frameRate: sane(said, null), variableFrameRate: false };
  const even = gaps.filter((gap) => isAbout(gap, usual));
  const strays = gaps.length - even.length;
  // A track that says its average exactly tells of changes further on.
  const changesLater = !isAbout(said.den / said.num, usual);
  const variableFrameRate =
    strays > Math.max(1, gaps.length / 100) || (changesLater && said.num / said.den < 1 / usual);
  if (variableFrameRate || nominal === null) return { frameRate: sane(said, usual), variableFrameRate };
  // Of a fragmented MP4 the container's average counts its frames over a time in which there may be more than frames.
  const measured = even.length / even.reduce((sum, gap) => sum + gap, 0);
  const uncertain = Math.max(sameRate, roundingS / usual / Math.max(1, even.length));
  const wrong = !isNear(said, measured, uncertain) && isNear(nominal, measured, uncertain);
  return { frameRate: wrong ? nominal : sane(said, usual), variableFrameRate };
}

function isAbout(gap: number, usual: number): boolean {
  return Math.abs(gap - usual) <= Math.max(roundingS, usual * 0.1);
}

function isNear({ num, den }: Ratio, rate: number, tolerance: number): boolean {
  return Math.abs(num / den - rate) <= rate * tolerance;
}

/** The rate by the shortest distance that a fair share of the frames keep; null where there is none. */
function movingRate(gaps: readonly number[], nominal: Ratio | null): Ratio | null {
  const rising = gaps.filter((gap) => gap > 0).sort((a, b) => a - b);
  const least = Math.max(leastGaps, rising.length * leastShare);
  for (const shortest of rising) {
    const alike = rising.filter((gap) => gap >= shortest && gap <= shortest + Math.max(roundingS, shortest * 0.1));
    if (alike.length < least) continue;
    const rate = alike.length / alike.reduce((sum, gap) => sum + gap, 0);
    if (rate > maxFrameRate) continue;
    const known = [...(nominal === null ? [] : [nominal]), ...usualRates];
    const closest = known.sort((a, b) => Math.abs(a.num / a.den - rate) - Math.abs(b.num / b.den - rate))[0];
    if (closest !== undefined && isNear(closest, rate, nearRate)) return closest;
    return { num: Math.max(1, Math.round(rate * 1_000)), den: 1_000 };
  }
  return null;
}

function sane(said: Ratio, usualGap: number | null): Ratio {
  if (said.num / said.den <= maxFrameRate) return said;
  return usualGap === null ? { num: 25, den: 1 } : { num: Math.max(1, Math.round(1_000 / usualGap)), den: 1_000 };
}

function median(values: readonly number[]): number | null {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? null;
}
