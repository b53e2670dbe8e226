import type { MediaDetail, MediaRendition } from '@mds/contract';

/**
 * The renditions of a media object that failed and that nothing is delivered for: what a page that names them misses. A media object is ready
 * all the same where others could be made. Not those of an earlier revision of a preset, where another revision is ready.
 */
export function failedRenditions({ renditions }: Pick<MediaDetail, 'renditions'>): MediaRendition[] {
  const ready = renditions.filter(({ state }) => state === 'ready');
  return renditions.filter(
    ({ state, name, extension }) =>
      state === 'failed' && !ready.some((other) => other.name === name && other.extension === extension),
  );
}
