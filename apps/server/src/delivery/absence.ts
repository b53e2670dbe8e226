import {
  buildDeliveryPath,
  DELIVERY_CACHE_CONTROL,
  type DeliveryPath,
  type ProblemCode,
  renditionPath,
} from '@mds/contract';
import { AppError } from '../base/app-error.ts';
import type { MediaRecord, RenditionRecord } from '../db/media-repository.ts';
import { OPEN_TO_ALL } from './representation.ts';

/** A 404 of delivery. Caches keep it for a moment, so that a page in demand does not request a missing rendition all the time. */
function absent(code: ProblemCode, detail: string): AppError {
  return new AppError(code, detail, { headers: { ...OPEN_TO_ALL, 'Cache-Control': DELIVERY_CACHE_CONTROL.notFound } });
}

export function noSuchPath(): AppError {
  return absent(
    'not_found',
    'This is not a delivery path. Paths have the form /media/{id}/{name}.{ext}, /media/{id}/{name}, ' +
      '/media/{id}/{name}/{file} or /media/{id}/manifest.json, in lower case and without percent-encoding.',
  );
}

export function mediaNotFound(id: string): AppError {
  return absent('media_not_found', `There is no media object ${id}. It was deleted, or the id is mistyped.`);
}

/** The 404 for the manifest of a media object that is not ready. */
export function manifestNotReady(mediaObject: MediaRecord): AppError {
  if (mediaObject.status === 'failed') {
    return absent(
      'rendition_not_found',
      'Processing of this media object failed, so it has no manifest. The operator can see why, and retry it.',
    );
  }
  return absent('rendition_not_ready', 'The media object is still being processed. Ask again in a few seconds.');
}

/** The 404 for the path of a rendition. @param rows all renditions of the media object */
export function explainMissing(
  path: DeliveryPath & { kind: 'rendition' },
  mediaObject: MediaRecord | null,
  rows: readonly RenditionRecord[],
): AppError {
  if (!mediaObject) return mediaNotFound(path.id);
  const file = `${path.name}.${path.extension}`;
  const candidates = rows.filter(({ name, extension }) => name === path.name && extension === path.extension);
  const delivered = candidates.find(({ current, state }) => current && state === 'ready');
  const row =
    path.revision === null
      ? candidates.find(({ current }) => current)
      : candidates.find(({ revision }) => revision === path.revision);
  if (path.revision !== null && !row && delivered) {
    const current = buildDeliveryPath({ ...path, revision: delivered.revision });
    return absent('rendition_not_found', `There is no such revision of ${file}. The current one is ${current}.`);
  }
  return explainState(file, row, mediaObject, rows);
}

/** The 404 for a rendition of several files that is requested as a single file. It names the path of its first file. */
export function livesElsewhere({ mediaId: id, name, extension }: RenditionRecord): AppError {
  const path = buildDeliveryPath(renditionPath({ id, name, extension, revision: null }));
  return absent('rendition_not_found', `${name}.${extension} consists of several files. It begins at ${path}.`);
}

/** The 404 for a file of a rendition. @param rows all renditions of the media object */
export function explainMissingFile(
  path: DeliveryPath & { kind: 'file' },
  mediaObject: MediaRecord | null,
  rows: readonly RenditionRecord[],
): AppError {
  if (!mediaObject) return mediaNotFound(path.id);
  const candidates = rows.filter(({ name, extension }) => name === path.name && isOfSeveralFiles({ name, extension }));
  const row = candidates.find(({ current, revision }) =>
    path.revision === null ? current : revision === path.revision,
  );
  const delivered = candidates.find(({ current, state }) => current && state === 'ready');
  if (row?.state !== 'ready' && (path.revision === null || row || !delivered)) {
    return explainState(path.name, row, mediaObject, rows);
  }
  if (row?.state === 'ready') return absent('rendition_not_found', `${path.name} has no file ${path.file}.`);
  const current = buildDeliveryPath({ ...path, revision: delivered?.revision ?? null });
  return absent('rendition_not_found', `There is no such revision of ${path.name}. The current one is ${current}.`);
}

/** Whether a rendition consists of several files. Then its name and extension are not a path. */
export function isOfSeveralFiles({ name, extension }: { name: string; extension: string }): boolean {
  return renditionPath({ id: '', name, extension, revision: null }).kind === 'file';
}

/** The 404 for a path with no representation to choose from. @param rows the renditions of that name */
export function nothingToNegotiate(
  path: DeliveryPath & { kind: 'negotiated' },
  mediaObject: MediaRecord | null,
  rows: readonly RenditionRecord[],
): AppError {
  if (!mediaObject) return mediaNotFound(path.id);
  const row = rows.find(({ state }) => state === 'pending') ?? rows.find(({ current }) => current);
  return explainState(path.name, row, mediaObject, rows);
}

function explainState(
  what: string,
  row: RenditionRecord | undefined,
  mediaObject: MediaRecord,
  rows: readonly RenditionRecord[],
): AppError {
  const unfinished = mediaObject.status === 'queued' || mediaObject.status === 'processing';
  if (row?.state === 'pending' || (!row && unfinished)) {
    return absent('rendition_not_ready', `${what} is still being made. Ask again in a few seconds.`);
  }
  if (row?.state === 'skipped') {
    return absent(
      'rendition_not_found',
      `${what} is not made of this media object${row.reason ? `: ${row.reason}` : '.'}`,
    );
  }
  if (row?.state === 'failed' || mediaObject.status === 'failed') {
    return absent(
      'rendition_not_found',
      `${what} could not be made. The operator can see why, and retry the media object.`,
    );
  }
  const ready = rows.filter(({ current, state }) => current && state === 'ready');
  const list = ready.map(({ name, extension }) => `${name}.${extension}`).join(', ');
  return absent(
    'rendition_not_found',
    `This media object has no rendition ${what}.${list === '' ? '' : ` It has ${list}.`}`,
  );
}
