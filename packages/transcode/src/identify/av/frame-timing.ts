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

/**
 * The frame rate, and whether it changes, by the times of the first packets: what containers say of it is often a nominal or
 * a guessed rate.
 * @throws ProgramError
 */
export async function frameTiming(
  prober: Pick<Prober, 'packets'>,
  track: VideoTrack,
): Promise<Pick<VideoTrack, 'frameRate' | 'variableFrameRate'>> {
  const packets: ProbedPacket[] = [];
  await prober.packets(track.index, (packet) => packets.push(packet), { most: packetsLookedAt });
  return judge(timesOf(packets), track.frameRate);
}

/** Times in seconds, rising: those of decoding, which have no holes, or where the container has none, those of showing. */
function timesOf(packets: readonly ProbedPacket[]): number[] {
  const decoding = packets.flatMap(({ dts }) => dts ?? []);
  if (decoding.length === packets.length) return decoding.sort((a, b) => a - b);
  const showing = packets.flatMap(({ pts }) => pts ?? []).sort((a, b) => a - b);
  // Frames between the last ones may be among the packets that were not looked at.
  return packets.length < packetsLookedAt ? showing : showing.slice(0, -mostReordered);
}

/** Pure part of {@link frameTiming}: `times` in seconds, rising. */
export function judge(times: readonly number[], said: Ratio): Pick<VideoTrack, 'frameRate' | 'variableFrameRate'> {
  const gaps = times.slice(1).map((time, index) => time - (times[index] ?? time));
  const usual = median(gaps.filter((gap) => gap > 0));
  if (usual === null) return { frameRate: sane(said, null), variableFrameRate: false };
  const strays = gaps.filter((gap) => Math.abs(gap - usual) > Math.max(roundingS, usual * 0.1)).length;
  const saidGap = said.den / said.num;
  // A track that says its average exactly tells of changes further on.
  const changesLater = Math.abs(saidGap - usual) > Math.max(roundingS, usual * 0.1);
  const variableFrameRate =
    strays > Math.max(1, gaps.length / 100) || (changesLater && said.num / said.den < 1 / usual);
  return { frameRate: sane(said, usual), variableFrameRate };
}

function sane(said: Ratio, usualGap: number | null): Ratio {
  if (said.num / said.den <= maxFrameRate) return said;
  return usualGap === null ? { num: 25, den: 1 } : { num: Math.max(1, Math.round(1_000 / usualGap)), den: 1_000 };
}

function median(values: readonly number[]): number | null {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? null;
}
