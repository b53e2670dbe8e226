import type { IdentifiedFile, Tracks } from '../../identified.ts';
import { sourceOptions } from '../input.ts';

/** Decoders that keep the alpha channel; ffmpeg's own decoders for these codecs ignore it. */
const alphaDecoders: Readonly<Record<string, string>> = { vp8: 'libvpx', vp9: 'libvpx-vp9' };

/** Options that open a source, with its alpha channel if it has one; they include `-i` and its path. */
export function sourceInput(path: string, source: IdentifiedFile & { readonly tracks: Tracks }): string[] {
  const { video } = source.tracks;
  const decoder = video?.hasAlpha ? alphaDecoders[video.codec] : undefined;
  return [...sourceOptions(source), ...(video && decoder ? [`-c:${video.index}`, decoder] : []), ...['-i', path]];
}

/** Longer than the priming samples of AAC encoders (2112 at 44.1 kHz). Audio that begins earlier than this is real content. */
const maxPrimingMs = 50;

/**
 * Options before {@link sourceInput}. They move time 0 to the first video frame if the audio begins slightly before it. Matroska
 * has no edit lists, so there the priming samples of AAC delay the video; audio before 0 is not played. Only for that container,
 * because in transport streams some versions of ffmpeg count from the first of the selected streams.
 */
export function fromFirstFrame({ format, tracks }: Pick<IdentifiedFile, 'format'> & { tracks: Tracks }): string[] {
  const { video, audio } = tracks;
  if (video === null || (format !== 'mkv' && format !== 'webm')) return [];
  const early = Math.max(0, ...audio.map(({ startMs }) => video.startMs - startMs));
  return early > 0 && early <= maxPrimingMs ? ['-itsoffset', `${-early / 1_000}`] : [];
}
