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
