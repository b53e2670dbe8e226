/**
 * What to let go of. `objects`: SHA-256 of what the path stands for, which is kept here perhaps though the path is not known; where they
 * are not told, all of the media object goes then.
 */
export type PurgeScope = { mediaId: string } | { path: string; objects?: readonly string[] } | 'everything';

/** What the data of a `cache.purged` event tells to let go of. */
export function purgeScopeOf(data: {
  media_id: string | null;
  path: string | null;
  objects?: readonly string[] | undefined;
}): PurgeScope {
  const { media_id: mediaId, path, objects } = data;
  if (mediaId !== null) return { mediaId };
  return path === null ? 'everything' : { path, ...(objects && { objects }) };
}
