import { createHash } from 'node:crypto';
import { buildDeliveryPath, type DeliveryPath, PIECE_BYTES } from '@mds/contract';
import type { MediaRepository, RenditionRecord } from '../db/media-repository.ts';
import type { PieceDigestRepository } from '../db/piece-digest-repository.ts';
import {
  explainMissing,
  explainMissingFile,
  isOfSeveralFiles,
  livesElsewhere,
  manifestNotReady,
  mediaNotFound,
  nothingToNegotiate,
} from './absence.ts';
import { NEGOTIABLE_TYPES } from './accept.ts';
import { buildManifest } from './manifest.ts';
import { createRepresentation, type Representation } from './representation.ts';
import { madeHere } from './verified-body.ts';

export interface PathLookupParts {
  media: Pick<MediaRepository, 'find' | 'findRendition' | 'findFile' | 'renditions'>;
  pieceDigests: Pick<PieceDigestRepository, 'find'>;
  region: string;
  /** Base address of the URLs in manifests. */
  publicUrl: () => string;
}

/**
 * Makes a function that reads the representations at a path from the database.
 * It throws AppError `media_not_found`, `rendition_not_found` or `rendition_not_ready` if there are none.
 */
export function createPathLookup({ media, pieceDigests, region, publicUrl }: PathLookupParts) {
  const represent = async (
    stored: Stored,
    path: Exclude<DeliveryPath, { kind: 'manifest' }>,
  ): Promise<Representation> => {
    const pieces = stored.bytes > PIECE_BYTES ? await pieceDigests.find(stored.sha256) : null;
    const { mediaId, contentType, sha256, bytes, updatedAtMs, objectKey, name, extension } = stored;
    const source = { kind: 'object', object: { key: objectKey, sha256, bytes, pieces } } as const;
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
    if (row && isDeliverable(row)) return [await represent(row, path)];
    throw explainMissing(path, await media.find(path.id), await media.renditions(path.id));
  };

  const lookUpFile = async (path: DeliveryPath & { kind: 'file' }) => {
    const { id: mediaId, name, revision, file } = path;
    const stored = await media.findFile({ mediaId, name, revision, file });
    if (stored && isDeliverableType(stored.contentType)) return [await represent(stored, path)];
    throw explainMissingFile(path, await media.find(mediaId), await media.renditions(mediaId));
  };

  const lookUpNegotiated = async (path: DeliveryPath & { kind: 'negotiated' }) => {
    const rows = (await media.renditions(path.id)).filter(({ name }) => name === path.name);
    const choices = rows
      .filter(isDeliverable)
      .filter(({ current, contentType }) => current && NEGOTIABLE_TYPES.has(contentType));
    if (choices.length > 0) return Promise.all(choices.map((row) => represent(row, path)));
    throw nothingToNegotiate(path, await media.find(path.id), rows);
  };

  const lookUpManifest = async ({ id }: DeliveryPath & { kind: 'manifest' }) => {
    const mediaObject = await media.find(id);
    if (!mediaObject) throw mediaNotFound(id);
    if (mediaObject.status !== 'ready') throw manifestNotReady(mediaObject);
    const rows = (await media.renditions(id)).filter((row) => row.current && isDeliverable(row));
    const body = madeHere(Buffer.from(JSON.stringify(buildManifest(mediaObject, rows, publicUrl()))));
    return [
      createRepresentation({
        mediaId: id,
        contentType: 'application/json',
        sha256: createHash('sha256').update(body).digest('hex'),
        bytes: body.length,
        updatedAtMs: Math.max(mediaObject.createdAtMs, ...rows.map(({ updatedAtMs }) => updatedAtMs)),
        source: { kind: 'made', body },
        region,
        caching: 'current',
        contentLocation: null,
        nowMs: Date.now(),
      }),
    ];
  };

  return (path: DeliveryPath): Promise<Representation[]> => {
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
}

type ReadyRendition = RenditionRecord & { objectKey: string; sha256: string; bytes: number };

type Stored = Pick<
  ReadyRendition,
  'mediaId' | 'name' | 'extension' | 'contentType' | 'sha256' | 'bytes' | 'updatedAtMs' | 'objectKey'
>;

/**
 * Whether a rendition can and may be delivered. SVG and other documents with scripts never are, because the scripts would run with
 * the rights of this origin.
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
