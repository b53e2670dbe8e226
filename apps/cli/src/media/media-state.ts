import { failedRenditions, type MediaDetail } from '@mds/client';
import { type Colours, colourState } from '../output/colours.ts';
import { counted, percent } from '../output/quantities.ts';

/** The state of a media object for people: `ready`, `ready, 2 failed` (renditions), `processing 42%`. */
export function stateOf(media: Pick<MediaDetail, 'status' | 'progress' | 'renditions'>): string {
  const { status, progress } = media;
  // Older services do not report progress.
  if (typeof progress === 'number') return `${status} ${percent(progress)}`;
  const failed = failedNames(media).length;
  return failed > 0 ? `${status}, ${failed} failed` : status;
}

/** Colours the state of a media object. Yellow marks one that is ready but lacks renditions. */
export function colourMediaState(
  colours: Colours,
  media: Pick<MediaDetail, 'status' | 'renditions'>,
  text: string,
): string {
  return failedNames(media).length > 0 ? colours.yellow(text) : colourState(colours, media.status, text);
}

/** The failed renditions of a ready media object, such as `hls.m3u8`. Empty for other states. */
export function failedNames(media: Pick<MediaDetail, 'status' | 'renditions'>): string[] {
  if (media.status !== 'ready') return [];
  return failedRenditions(media).map(({ name, extension }) => `${name}.${extension}`);
}

/** `2 renditions failed: hls.m3u8, mp4.mp4`; empty if none failed. */
export function failedSentence(names: readonly string[]): string {
  return names.length === 0 ? '' : `${counted(names.length, 'rendition')} failed: ${names.join(', ')}`;
}
