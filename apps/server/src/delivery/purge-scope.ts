import { parseDeliveryPath } from '@mds/contract';
import type { ObjectCache } from './cache/object-cache.ts';
import { ownedObjectOf, type Representation } from './representation.ts';
import type { Resolver } from './resolver.ts';

/**
 * The scope of a purge. `objects` has the SHA-256 of the objects at the path. They may be cached here even if the path
 * is not known.
 * If they are not given and the path is not known, the whole media object is dropped.
 */
export type PurgeScope = { mediaId: string } | { path: string; objects?: readonly string[] } | 'everything';

/** The scope that the data of a `cache.purged` event describes. */
export function purgeScopeOf(data: {
  media_id: string | null;
  path: string | null;
  objects?: readonly string[] | undefined;
}): PurgeScope {
  const { media_id: mediaId, path, objects } = data;
  if (mediaId !== null) return { mediaId };
  return path === null ? 'everything' : { path, ...(objects && { objects }) };
}

/** Drops known paths and cached objects. */
export function purge(parts: { resolver: Resolver; objects: ObjectCache }, scope: PurgeScope): void {
  const { resolver, objects } = parts;
  if (scope === 'everything') {
    resolver.forgetAll();
    objects.clear();
    return;
  }
  if ('mediaId' in scope) {
    dropObjects(objects, resolver.forgetMedia(scope.mediaId));
    objects.dropMedia(scope.mediaId);
    return;
  }
  const known = resolver.forget(scope.path);
  dropObjects(objects, known);
  const mediaId = parseDeliveryPath(scope.path)?.id;
  if (mediaId === undefined) return;
  if (scope.objects) for (const sha256 of scope.objects) objects.drop(mediaId, { sha256 });
  else if (known.length === 0) purge(parts, { mediaId });
}

function dropObjects(objects: ObjectCache, representations: readonly Representation[]): void {
  for (const representation of representations) {
    const owned = ownedObjectOf(representation);
    if (owned) objects.drop(owned.mediaId, owned.object);
  }
}
