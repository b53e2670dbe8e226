import type { IdentifiedFile, Tracks } from '../../identified.ts';
import { sourceOptions } from '../input.ts';

/** Decoders that keep the alpha channel, which ffmpeg's own for these codecs ignore. */
const alphaDecoders: Readonly<Record<string, string>> = { vp8: 'libvpx', vp9: 'libvpx-vp9' };

/** Options that open a source with its alpha channel, if it has one; `-i` and its path among them. */
export function sourceInput(path: string, source: IdentifiedFile & { readonly tracks: Tracks }): string[] {
  const { video } = source.tracks;
  const decoder = video?.hasAlpha ? alphaDecoders[video.codec] : undefined;
  return [...sourceOptions(source), ...(video && decoder ? [`-c:${video.index}`, decoder] : []), ...['-i', path]];
}

/** More than encoders of AAC put before the first sample (2112 at 44.1 kHz): what begins earlier is meant to be heard. */
const mostPrimingMs = 50;

/**
 * Options before {@link sourceInput} that make the first frame of the video the time 0 where the sound begins a moment before it:
 * Matroska has no edit lists, so that the priming samples of AAC delay the video there. What lies before 0 is not played. Of that
 * container alone: in a transport stream some versions of ffmpeg count from the first of the streams that are asked for.
 */
export function fromFirstFrame({ format, tracks }: Pick<IdentifiedFile, 'format'> & { tracks: Tracks }): string[] {
  const { video, audio } = tracks;
  if (video === null || (format !== 'mkv' && format !== 'webm')) return [];
  const early = Math.max(0, ...audio.map(({ startMs }) => video.startMs - startMs));
  return early > 0 && early <= mostPrimingMs ? ['-itsoffset', `${-early / 1_000}`] : [];
}
