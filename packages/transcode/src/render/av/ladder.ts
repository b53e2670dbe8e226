import { join } from 'node:path';
import type { VideoOutput } from '../../ffmpeg/argv/ladder.ts';
import type { PlannedRendition, PlannedRung, PlannedVideo } from '../../plan.ts';
import type { HlsPreset, Mp4Preset } from '../../presets/video.ts';

export type PlannedHls = PlannedRendition & { readonly preset: HlsPreset; readonly video: PlannedVideo };
export type PlannedMp4 = PlannedRendition & { readonly preset: Mp4Preset; readonly video: PlannedVideo };

export function isHls(planned: PlannedRendition): planned is PlannedHls {
  return planned.preset.type === 'hls' && planned.video !== null;
}

export function isMp4(planned: PlannedRendition): planned is PlannedMp4 {
  return planned.preset.type === 'mp4' && planned.video !== null;
}

/** Seconds between keyframes of an MP4 file that shares its video with no ladder. */
export const defaultSegmentSeconds = 4;

/** A stream that is encoded once and used for all rungs and files with the same settings. */
export interface Encode extends VideoOutput {
  /** {@link PlannedRung.encodedBecause} */
  readonly encodedBecause: string | null;
}

/** The encode for a rung. The same size and settings always give the same stream. */
export function encodeOf(rung: PlannedRung, { crf, speed }: HlsPreset | Mp4Preset, scratch: string): Encode {
  const { width, height, bitrate, encodedBecause } = rung;
  const path = join(scratch, `${width}x${height}-${bitrate}-${crf}-${speed}.mp4`);
  return { path, width, height, crf, speed, bitrate, encodedBecause };
}

/** All streams to encode for these renditions, each once. `isCopied`: the stream needs no encode. */
export function encodesOf(
  renditions: ReadonlyArray<PlannedHls | PlannedMp4>,
  scratch: string,
  isCopied: (planned: PlannedHls | PlannedMp4, encode: Encode) => boolean = () => false,
): Encode[] {
  const byPath = new Map<string, Encode>();
  for (const planned of renditions) {
    for (const rung of planned.video.rungs) {
      const encode = encodeOf(rung, planned.preset, scratch);
      if (!isCopied(planned, encode)) byPath.set(encode.path, encode);
    }
  }
  return [...byPath.values()];
}
