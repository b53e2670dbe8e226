import type { MediaDetail, MediaRendition } from '@mds/contract';

/**
 * The failed renditions of a media object, for which nothing is delivered. A media object can be ready although some renditions failed.
 * Omits a failed revision if another revision of the same preset is ready.
 */
export function failedRenditions({ renditions }: Pick<MediaDetail, 'renditions'>): MediaRendition[] {
  const ready = renditions.filter(({ state }) => state === 'ready');
  return renditions.filter(
    ({ state, name, extension }) =>
      state === 'failed' && !ready.some((other) => other.name === name && other.extension === extension),
  );
}
