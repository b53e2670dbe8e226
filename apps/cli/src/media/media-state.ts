import { failedRenditions, type MediaDetail } from '@mds/client';
import { type Colours, colourState } from '../output/colours.ts';
import { counted, percent } from '../output/quantities.ts';

/** The state of a media object for people: `ready`, `ready, 2 failed` (renditions), `processing 42%`. */
export function stateOf(media: Pick<MediaDetail, 'status' | 'progress' | 'renditions'>): string {
  const { status, progress } = media;
  // A service older than this command does not say how far it is.
  if (typeof progress === 'number') return `${status} ${percent(progress)}`;
  const failed = failedNames(media).length;
  return failed > 0 ? `${status}, ${failed} failed` : status;
}

/** Colours the state of a media object: one that is ready in part is not as green as one that is ready. */
export function colourMediaState(
  colours: Colours,
  media: Pick<MediaDetail, 'status' | 'renditions'>,
  text: string,
): string {
  return failedNames(media).length > 0 ? colours.yellow(text) : colourState(colours, media.status, text);
}

/** Which renditions a media object that is ready has not, for they failed: `hls.m3u8`. Of one that failed itself, none is told. */
export function failedNames(media: Pick<MediaDetail, 'status' | 'renditions'>): string[] {
  if (media.status !== 'ready') return [];
  return failedRenditions(media).map(({ name, extension }) => `${name}.${extension}`);
}

/** `2 renditions failed: hls.m3u8, mp4.mp4`; empty where none did. */
export function failedSentence(names: readonly string[]): string {
  return names.length === 0 ? '' : `${counted(names.length, 'rendition')} failed: ${names.join(', ')}`;
}
