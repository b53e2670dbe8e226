// Without zod on purpose: browsers and the command line load this file alone (`@mds/contract/delivery-path`).

/** Path prefix of delivery. */
export const DELIVERY_PREFIX = '/media';

/** The Cache-Control values of delivery. */
export const DELIVERY_CACHE_CONTROL = {
  current: 'public, max-age=300, stale-while-revalidate=60',
  immutable: 'public, max-age=31536000, immutable',
  notFound: 'public, max-age=5',
} as const;

/** What a delivery path asks for. */
export type DeliveryPath =
  /** `/media/{id}/{name}.{ext}` (the current revision) or `/media/{id}/{name}.{revision}.{ext}` (that one, for ever). */
  | { kind: 'rendition'; id: string; name: string; extension: string; revision: string | null }
  /** `/media/{id}/{name}/{file}` or `/media/{id}/{name}.{revision}/{file}`: a file of a rendition that consists of several. */
  | { kind: 'file'; id: string; name: string; revision: string | null; file: string }
  /** `/media/{id}/{name}`: the format is chosen by Accept. */
  | { kind: 'negotiated'; id: string; name: string }
  /** `/media/{id}/manifest.json`. */
  | { kind: 'manifest'; id: string };

const ID = 'med_[0-9a-z]{26}';
const NAME = '[a-z][a-z0-9_-]{0,31}';
/** Of a file within a rendition: segments begin with a letter or digit, so none is `.` or `..`; the last has one extension. */
const FILE = '(?:[a-z0-9][a-z0-9_-]{0,63}/){0,3}[a-z0-9][a-z0-9_-]{0,63}\\.[a-z0-9]{1,5}';
const WHOLE_FILE = new RegExp(`^${FILE}$`);
const GRAMMAR = new RegExp(
  `^${DELIVERY_PREFIX}/(?<id>${ID})/(?<name>${NAME})(?:(?:\\.(?<revision>[0-9a-f]{8}))?\\.(?<extension>[a-z0-9]{1,5}))?$`,
);

const FILE_GRAMMAR = new RegExp(
  `^${DELIVERY_PREFIX}/(?<id>${ID})/(?<name>${NAME})(?:\\.(?<revision>[0-9a-f]{8}))?/(?<file>${FILE})$`,
);

/**
 * Reads a raw request path, query removed, percent-encoding untouched: the grammar has no character that
 * needs encoding, so an encoded path is never one of ours, however often it would decode to one.
 * @returns what is asked for, or null where the path is not one of delivery's
 */
export function parseDeliveryPath(path: string): DeliveryPath | null {
  const groups = GRAMMAR.exec(path)?.groups;
  const { id, name, extension, revision } = groups ?? {};
  if (!id || !name) return parseFilePath(path);
  if (!extension) return { kind: 'negotiated', id, name };
  if (name === 'manifest' && extension === 'json') return revision ? null : { kind: 'manifest', id };
  return { kind: 'rendition', id, name, extension, revision: revision ?? null };
}

/** Whether a name can be that of a file within a rendition. */
export function isRenditionFile(name: string): boolean {
  return WHOLE_FILE.test(name);
}

function parseFilePath(path: string): DeliveryPath | null {
  const { id, name, revision, file } = FILE_GRAMMAR.exec(path)?.groups ?? {};
  return id && name && file ? { kind: 'file', id, name, revision: revision ?? null, file } : null;
}

/** The file that a rendition of several files is opened by, for each extension that stands for such a rendition. */
const ENTRY_FILES: Readonly<Record<string, string>> = { m3u8: 'master.m3u8' };

/**
 * Where a rendition is: its one file, or of a rendition that consists of several the one that the others are found by.
 * @param rendition.revision null: the current one
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

/** The path that {@link parseDeliveryPath} reads back to the same value. */
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
