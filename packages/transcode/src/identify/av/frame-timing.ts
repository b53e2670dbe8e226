import type { Ratio, VideoTrack } from '../../identified.ts';
import type { ProbedPacket, Prober } from './probe.ts';

/** Packets that are read first: twenty seconds at 30 frames a second, in which a phone or screen recorder changes its pace. */
const firstPackets = 600;
/** Most frames that H.264 and HEVC may hold back for reordering. */
const maxReordered = 16;
/** Containers round times: Matroska to a millisecond, and two rounding errors may add up. */
const roundingS = 0.0021;
/** Higher frame rates are mistakes of a container; no camera has them. */
const maxFrameRate = 1_000;

/** If the rate varies, further positions are read: shares of the duration, and packets at each. */
const furtherPositions = [0.2, 0.4, 0.6, 0.8];
const packetsAtPosition = 150;
/** The share of all gaps that must have the same length to count as the rate of moving parts. */
const minShare = 0.1;
const minGaps = 3;
/** Frame rates of cameras and screen recorders. */
const usualRates: readonly Ratio[] = [
  ...[10, 12, 15, 20, 24, 25, 30, 48, 50, 60, 90, 100, 120].map((num) => ({ num, den: 1 })),
  ...[24_000, 30_000, 60_000, 120_000].map((num) => ({ num, den: 1_001 })),
];
/** Two rates this close are the same: 30 and 30000/1001 differ by a thousandth. */
const sameRate = 0.000_4;
/** The tolerance for a rate that was measured from few or rounded times. */
const nearRate = 0.015;

/**
 * Determines the frame rate, and whether it varies, from the times of the first packets. The rate in a container is often nominal
 * or guessed. If the rate varies, it is that of the moving parts, for which further positions are read.
 * `nominal`: a rate on whose grid all times lie, as the container or ffprobe guesses it.
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
  const times = await read({ most: firstPackets });
  const judged = judge(times, track.frameRate, nominal);
  if (!judged.variableFrameRate) return judged;
  const gaps = gapsOf(times);
  for (const share of furtherPositions) {
    const fromS = (track.startMs + (track.durationMs ?? 0) * share) / 1_000;
    if (fromS > (times.at(-1) ?? 0)) gaps.push(...gapsOf(await read({ fromS, most: packetsAtPosition })));
  }
  return { ...judged, frameRate: movingRate(gaps, nominal) ?? judged.frameRate };
}

/** Rising times in seconds: decoding times, which have no gaps, or presentation times if the container has no others. */
function timesOf(packets: readonly ProbedPacket[], most: number): number[] {
  const decoding = packets.flatMap(({ dts }) => dts ?? []);
  if (decoding.length === packets.length) return decoding.sort((a, b) => a - b);
  const showing = packets.flatMap(({ pts }) => pts ?? []).sort((a, b) => a - b);
  // Frames between the last ones may be in packets that were not read.
  return packets.length < most ? showing : showing.slice(0, -maxReordered);
}

function gapsOf(times: readonly number[]): number[] {
  return times.slice(1).map((time, index) => time - (times[index] ?? time));
}

/** Judges the rate by the first packets: `times` in seconds, rising. `stated` is the average in the container. */
function judge(
  times: readonly number[],
  stated: Ratio,
  nominal: Ratio | null,
): Pick<VideoTrack, 'frameRate' | 'variableFrameRate'> {
  const gaps = gapsOf(times);
  const usual = median(gaps.filter((gap) => gap > 0));
  if (usual === null) return { frameRate: plausibleRate(stated, null), variableFrameRate: false };
  const even = gaps.filter((gap) => isAbout(gap, usual));
  const outliers = gaps.length - even.length;
  // An exact average that differs from the first frames reveals changes further on.
  const changesLater = !isAbout(stated.den / stated.num, usual);
  const variableFrameRate =
    outliers > Math.max(1, gaps.length / 100) || (changesLater && stated.num / stated.den < 1 / usual);
  if (variableFrameRate || nominal === null) return { frameRate: plausibleRate(stated, usual), variableFrameRate };
  // In a fragmented MP4, the average counts the frames over a duration in which other tracks may be longer.
  const measured = even.length / even.reduce((sum, gap) => sum + gap, 0);
  const uncertain = Math.max(sameRate, roundingS / usual / Math.max(1, even.length));
  const wrong = !isNear(stated, measured, uncertain) && isNear(nominal, measured, uncertain);
  return { frameRate: wrong ? nominal : plausibleRate(stated, usual), variableFrameRate };
}

function isAbout(gap: number, usual: number): boolean {
  return Math.abs(gap - usual) <= Math.max(roundingS, usual * 0.1);
}

function isNear({ num, den }: Ratio, rate: number, tolerance: number): boolean {
  return Math.abs(num / den - rate) <= rate * tolerance;
}

/** The rate from the shortest gap that enough frames have; null if there is none. */
function movingRate(gaps: readonly number[], nominal: Ratio | null): Ratio | null {
  const rising = gaps.filter((gap) => gap > 0).sort((a, b) => a - b);
  const least = Math.max(minGaps, rising.length * minShare);
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

function plausibleRate(stated: Ratio, usualGap: number | null): Ratio {
  if (stated.num / stated.den <= maxFrameRate) return stated;
  return usualGap === null ? { num: 25, den: 1 } : { num: Math.max(1, Math.round(1_000 / usualGap)), den: 1_000 };
}

function median(values: readonly number[]): number | null {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? null;
}
