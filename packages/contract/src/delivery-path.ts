// Without zod on purpose: browsers and the CLI load only this file of the contract (`@mds/contract/delivery-path`).

/** Path prefix of delivery. */
export const DELIVERY_PREFIX = '/media';

/** The Cache-Control values of delivery. */
export const DELIVERY_CACHE_CONTROL = {
  current: 'public, max-age=300, stale-while-revalidate=60',
  immutable: 'public, max-age=31536000, immutable',
  notFound: 'public, max-age=5',
} as const;

/** The target of a delivery path. */
export type DeliveryPath =
  /** `/media/{id}/{name}.{ext}` (the current revision) or `/media/{id}/{name}.{revision}.{ext}` (always that revision). */
  | { kind: 'rendition'; id: string; name: string; extension: string; revision: string | null }
  /** `/media/{id}/{name}/{file}` or `/media/{id}/{name}.{revision}/{file}`: a file of a rendition with several files. */
  | { kind: 'file'; id: string; name: string; revision: string | null; file: string }
  /** `/media/{id}/{name}`: the Accept field selects the format. */
  | { kind: 'negotiated'; id: string; name: string }
  /** `/media/{id}/manifest.json`. */
  | { kind: 'manifest'; id: string };

const ID = 'med_[0-9a-z]{26}';
const NAME = '[a-z][a-z0-9_-]{0,31}';
/** A file within a rendition. Each path segment begins with a letter or digit, so none is `.` or `..`; the last has one extension. */
const FILE = '(?:[a-z0-9][a-z0-9_-]{0,63}/){0,3}[a-z0-9][a-z0-9_-]{0,63}\\.[a-z0-9]{1,5}';
const WHOLE_FILE = new RegExp(`^${FILE}$`);
const GRAMMAR = new RegExp(
  `^${DELIVERY_PREFIX}/(?<id>${ID})/(?<name>${NAME})(?:(?:\\.(?<revision>[0-9a-f]{8}))?\\.(?<extension>[a-z0-9]{1,5}))?$`,
);

const FILE_GRAMMAR = new RegExp(
  `^${DELIVERY_PREFIX}/(?<id>${ID})/(?<name>${NAME})(?:\\.(?<revision>[0-9a-f]{8}))?/(?<file>${FILE})$`,
);

/**
 * Parses a raw request path, without its query and with its percent-encoding untouched. The grammar has no character that needs encoding,
 * so an encoded path is never a delivery path, however often it would decode to one.
 * @returns null if it is not a delivery path
 */
export function parseDeliveryPath(path: string): DeliveryPath | null {
  const groups = GRAMMAR.exec(path)?.groups;
  const { id, name, extension, revision } = groups ?? {};
  if (!id || !name) return parseFilePath(path);
  if (!extension) return { kind: 'negotiated', id, name };
  if (name === 'manifest' && extension === 'json') return revision ? null : { kind: 'manifest', id };
  return { kind: 'rendition', id, name, extension, revision: revision ?? null };
}

/** Whether a name is valid for a file within a rendition. */
export function isRenditionFile(name: string): boolean {
  return WHOLE_FILE.test(name);
}

function parseFilePath(path: string): DeliveryPath | null {
  const { id, name, revision, file } = FILE_GRAMMAR.exec(path)?.groups ?? {};
  return id && name && file ? { kind: 'file', id, name, revision: revision ?? null, file } : null;
}

/** The entry file of renditions with several files, by the rendition's extension. */
const ENTRY_FILES: Readonly<Record<string, string>> = { m3u8: 'master.m3u8' };

/**
 * The path of a rendition: of its one file, or of its entry file if it has several.
 * @param rendition.revision null: the current revision
 */
export function renditionPath(rendition: {
  id: string;
  name: string;
  extension: string;
  revision: string | null;
}): DeliveryPath & { kind: 'rendition' | 'file' } {
  const { id, name, extension, revision } = rendition;
  const file = ENTRY_FILES[extension];
  return file === undefined
    ? { kind: 'rendition', id, name, extension, revision }
    : { kind: 'file', id, name, revision, file };
}

/** The path that {@link parseDeliveryPath} parses to the same value. */
export function buildDeliveryPath(path: DeliveryPath): string {
  const base = `${DELIVERY_PREFIX}/${path.id}`;
  switch (path.kind) {
    case 'manifest':
      return `${base}/manifest.json`;
    case 'file':
      return `${base}/${path.name}${path.revision ? `.${path.revision}` : ''}/${path.file}`;
    case 'negotiated':
      return `${base}/${path.name}`;
    case 'rendition':
      return `${base}/${path.name}${path.revision ? `.${path.revision}` : ''}.${path.extension}`;
  }
}
