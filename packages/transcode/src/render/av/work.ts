import type { IdentifiedFile, Tracks } from '../../identified.ts';

type Source = Pick<IdentifiedFile, 'durationMs'> & { readonly tracks: Tracks };

/** Seconds of processor time for a million pixels, measured on common recordings; only their ratio matters. */
const decodePerMegapixel = 0.003_5;
const encodePerMegapixel = 0.02;
/** For a second of audio, decoded and encoded. */
const audioPerSecond = 0.01;

/** Work to decode `seconds` of the video, or all of it. The weights of all steps are in this unit. */
export function decodingWork({ durationMs, tracks: { video } }: Source, seconds = Infinity): number {
  if (video === null) return 0;
  const { num, den } = video.frameRate;
  const frames = (Math.min(seconds, (durationMs ?? 0) / 1_000) * num) / den;
  return ((frames * video.codedWidth * video.codedHeight) / 1e6) * decodePerMegapixel;
}

/** Work to encode `pixels` per frame for the whole video. */
export function encodingWork(source: Source, pixels: number): number {
  const { num, den } = source.tracks.video?.frameRate ?? { num: 0, den: 1 };
  const frames = ((source.durationMs ?? 0) / 1_000) * Math.min(60, num / den);
  return ((frames * pixels) / 1e6) * encodePerMegapixel;
}

export function audioWork({ durationMs }: Source): number {
  return ((durationMs ?? 0) / 1_000) * audioPerSecond;
}
