import { createHash } from 'node:crypto';
import { buildDeliveryPath, type DeliveryPath, parseDeliveryPath } from '@mds/contract';
import { LRUCache } from 'lru-cache';
import type { MediaRepository, RenditionRecord } from '../db/media-repository.ts';
import {
  explainMissing,
  explainMissingFile,
  isOfSeveralFiles,
  livesElsewhere,
  manifestNotReady,
  mediaNotFound,
  noSuchPath,
  nothingToNegotiate,
} from './absence.ts';
import { NEGOTIABLE_TYPES } from './accept.ts';
import { buildManifest } from './manifest.ts';
import { createRepresentation, type Representation } from './representation.ts';
import { madeHere } from './verified-body.ts';
import { createVersionClock } from './version-clock.ts';

/** What a path stands for: one representation, or several among which Accept chooses. */
export interface Resource {
  representations: readonly Representation[];
  negotiated: boolean;
  /** Version of the media that this was true of. */
  version: number;
  /** Whether a request has been answered with it; the first answer of a manifest is a miss. */
  used: boolean;
}

/** Turns paths into what they stand for right now. */
export interface Resolver {
  /**
   * What is at a path. At once where it is known and nothing was written since.
   * @throws AppError `not_found`, `media_not_found`, `rendition_not_found`, `rendition_not_ready`
   */
  resolve(path: string): Resource | Promise<Resource>;
  /** Forgets one path. */
  forget(path: string): void;
  /** Forgets a medium. @returns what was known of it */
  forgetMedium(mediaId: string): Representation[];
}

/** Room for what is known of paths: some 10,000 of them with their headers. */
const MAX_BYTES = 32 * 1024 * 1024;
/** Estimate of what a representation takes beside a made body: record, strings, header lists. */
const REPRESENTATION_BYTES = 3 * 1024;

type ReadyRendition = RenditionRecord & { objectKey: string; sha256: string; bytes: number };

/**
 * A rendition that can and may be delivered. SVG and other documents that run script are not among them, whatever
 * a row says: they would run in the name of this origin.
 */
function isDeliverable(row: RenditionRecord): row is ReadyRendition {
  const ready = row.state === 'ready' && row.objectKey !== null && row.sha256 !== null && row.bytes !== null;
  return ready && isDeliverableType(row.contentType);
}

function isDeliverableType(contentType: string): boolean {
  return /^(?:(?:image|video|audio)\/(?!svg)[a-z0-9.+-]+|text\/vtt|application\/(?:json|vnd\.apple\.mpegurl))$/.test(
    contentType,
  );
}

export function createResolver(deps: {
  media: Pick<MediaRepository, 'find' | 'findRendition' | 'findFile' | 'renditions' | 'version'>;
  region: string;
  /** Base address of the URLs in manifests. */
  publicUrl: () => string;
}): Resolver {
  const { media, region, publicUrl } = deps;
  const clock = createVersionClock(() => media.version());
  const known = new LRUCache<string, Resource>({
    maxSize: MAX_BYTES,
    sizeCalculation: ({ representations }) => {
      const made = representations.map(({ source }) => (source.kind === 'made' ? source.body.length : 0));
      return made.reduce((sum, bytes) => sum + bytes, 0) + REPRESENTATION_BYTES * representations.length;
    },
  });

  type Stored = Pick<
    ReadyRendition,
    'mediaId' | 'name' | 'extension' | 'contentType' | 'sha256' | 'bytes' | 'updatedAtMs' | 'objectKey'
  >;

  const represent = (stored: Stored, path: Exclude<DeliveryPath, { kind: 'manifest' }>): Representation => {
    const { mediaId, contentType, sha256, bytes, updatedAtMs, objectKey, name, extension } = stored;
    const source = { kind: 'object', object: { key: objectKey, sha256, bytes } } as const;
    return createRepresentation({
      ...{ mediaId, contentType, sha256, bytes, updatedAtMs, source, region, nowMs: Date.now() },
      caching: path.kind !== 'negotiated' && path.revision !== null ? 'immutable' : 'current',
      contentLocation:
        path.kind === 'negotiated'
          ? buildDeliveryPath({ kind: 'rendition', id: mediaId, name, extension, revision: null })
          : null,
    });
  };

  const lookUpRendition = async (path: DeliveryPath & { kind: 'rendition' }) => {
    const row = await media.findRendition({ mediaId: path.id, ...path });
    if (row && isOfSeveralFiles(row)) throw livesElsewhere(row);
    if (row && isDeliverable(row)) return [represent(row, path)];
    throw explainMissing(path, await media.find(path.id), await media.renditions(path.id));
  };

  const lookUpFile = async (path: DeliveryPath & { kind: 'file' }) => {
    const { id: mediaId, name, revision, file } = path;
    const stored = await media.findFile({ mediaId, name, revision, file });
    if (stored && isDeliverableType(stored.contentType)) return [represent(stored, path)];
    throw explainMissingFile(path, await media.find(mediaId), await media.renditions(mediaId));
  };

  const lookUpNegotiated = async (path: DeliveryPath & { kind: 'negotiated' }) => {
    const rows = (await media.renditions(path.id)).filter(({ name }) => name === path.name);
    const choices = rows
      .filter(isDeliverable)
      .filter(({ current, contentType }) => current && NEGOTIABLE_TYPES.has(contentType));
    if (choices.length > 0) return choices.map((row) => represent(row, path));
    throw nothingToNegotiate(path, await media.find(path.id), rows);
  };

  const lookUpManifest = async ({ id }: DeliveryPath & { kind: 'manifest' }) => {
    const medium = await media.find(id);
    if (!medium) throw mediaNotFound(id);
    if (medium.status !== 'ready') throw manifestNotReady(medium);
    const rows = (await media.renditions(id)).filter((row) => row.current && isDeliverable(row));
    const body = madeHere(Buffer.from(JSON.stringify(buildManifest(medium, rows, publicUrl()))));
    return [
      createRepresentation({
        mediaId: id,
        contentType: 'application/json',
        sha256: createHash('sha256').update(body).digest('hex'),
        bytes: body.length,
        updatedAtMs: Math.max(medium.createdAtMs, ...rows.map(({ updatedAtMs }) => updatedAtMs)),
        source: { kind: 'made', body },
        region,
        caching: 'current',
        contentLocation: null,
        nowMs: Date.now(),
      }),
    ];
  };

  const lookUp = (path: DeliveryPath): Promise<Representation[]> => {
    switch (path.kind) {
      case 'rendition':
        return lookUpRendition(path);
      case 'file':
        return lookUpFile(path);
      case 'negotiated':
        return lookUpNegotiated(path);
      case 'manifest':
        return lookUpManifest(path);
    }
  };

  const resolveAnew = async (path: string, reading: number | Promise<number>): Promise<Resource> => {
    // The version is read before the rows: a write in between makes what is known look old, never what is old look new.
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

    forget(path) {
      known.delete(path);
    },

    forgetMedium(mediaId) {
      clock.reset();
      const forgotten: Representation[] = [];
      for (const [path, { representations }] of known.entries()) {
        if (representations[0]?.mediaId !== mediaId) continue;
        known.delete(path);
        forgotten.push(...representations);
      }
      return forgotten;
    },
  };
}
