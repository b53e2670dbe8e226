import { parseDeliveryPath } from '@mds/contract';
import { LRUCache } from 'lru-cache';
import type { MediaRepository } from '../db/media-repository.ts';
import { noSuchPath } from './absence.ts';
import { createPathLookup, type PathLookupParts } from './path-lookup.ts';
import type { Representation } from './representation.ts';
import type { Resolver, Resource } from './resolver.ts';
import { createVersionClock } from './version-clock.ts';

/** Memory for known paths: some 10,000 of them with their header fields. */
const MAX_BYTES = 32 * 1024 * 1024;
/** Estimated size of a representation beside a made body: record, strings, lists of fields. */
const REPRESENTATION_BYTES = 3 * 1024;

/** With the version of the media that it was read at. */
type KnownResource = Resource & { version: number };

function sizeOf({ representations }: Resource): number {
  const made = representations.map(({ source }) =>
    source.kind === 'made' ? source.body.length : (source.object.pieces?.length ?? 0),
  );
  return made.reduce((sum, bytes) => sum + bytes, 0) + REPRESENTATION_BYTES * representations.length;
}

/** Makes a {@link Resolver} over the database of this service. */
export function createDatabaseResolver(
  deps: PathLookupParts & { media: PathLookupParts['media'] & Pick<MediaRepository, 'version'> },
): Resolver {
  const { media } = deps;
  const lookUp = createPathLookup(deps);
  const clock = createVersionClock(() => media.version());
  const known = new LRUCache<string, KnownResource>({ maxSize: MAX_BYTES, sizeCalculation: sizeOf });

  const resolveAnew = async (path: string, reading: number | Promise<number>): Promise<KnownResource> => {
    // The version is read before the rows. A write in between makes new rows look old, never old rows look new.
    const version = await reading;
    const before = known.get(path);
    if (before?.version === version) return before;
    const parsed = parseDeliveryPath(path);
    if (!parsed) throw noSuchPath();
    try {
      const representations = await lookUp(parsed);
      const resource = { representations, negotiated: parsed.kind === 'negotiated', version, used: false };
      known.set(path, resource);
      return resource;
    } catch (error) {
      known.delete(path);
      throw error;
    }
  };

  return {
    resolve(path) {
      const version = clock.now();
      const resource = known.get(path);
      if (resource !== undefined && resource.version === version) return resource;
      return resolveAnew(path, version);
    },

    refresh() {
      const version = clock.now();
      return typeof version === 'number' ? false : version.then(() => undefined);
    },

    peek(path) {
      const version = clock.peek();
      if (version === null) return null;
      const resource = known.get(path);
      return resource?.version === version ? resource : null;
    },

    forget(path) {
      const forgotten = known.get(path)?.representations ?? [];
      known.delete(path);
      return forgotten;
    },

    forgetMedia(mediaId) {
      clock.reset();
      const forgotten: Representation[] = [];
      for (const [path, { representations }] of known.entries()) {
        if (representations[0]?.mediaId !== mediaId) continue;
        known.delete(path);
        forgotten.push(...representations);
      }
      return forgotten;
    },

    forgetAll() {
      clock.reset();
      known.clear();
    },

    async probe() {
      await media.version();
    },
  };
}
