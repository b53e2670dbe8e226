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
  /** `/media/{id}/{name}`: the format is chosen by Accept. */
  | { kind: 'negotiated'; id: string; name: string }
  /** `/media/{id}/manifest.json`. */
  | { kind: 'manifest'; id: string };

const ID = 'med_[0-9a-z]{26}';
const GRAMMAR = new RegExp(
  `^${DELIVERY_PREFIX}/(?<id>${ID})/(?<name>[a-z][a-z0-9_-]{0,31})(?:(?:\\.(?<revision>[0-9a-f]{8}))?\\.(?<extension>[a-z0-9]{1,5}))?$`,
);

/**
 * Reads a raw request path, query removed, percent-encoding untouched: the grammar has no character that
 * needs encoding, so an encoded path is never one of ours, however often it would decode to one.
 * @returns what is asked for, or null where the path is not one of delivery's
 */
export function parseDeliveryPath(path: string): DeliveryPath | null {
  const groups = GRAMMAR.exec(path)?.groups;
  const { id, name, extension, revision } = groups ?? {};
  if (!id || !name) return null;
  if (!extension) return { kind: 'negotiated', id, name };
  if (name === 'manifest' && extension === 'json') return revision ? null : { kind: 'manifest', id };
  return { kind: 'rendition', id, name, extension, revision: revision ?? null };
}

/** The path that {@link parseDeliveryPath} reads back to the same value. */
export function buildDeliveryPath(path: DeliveryPath): string {
  const base = `${DELIVERY_PREFIX}/${path.id}`;
  switch (path.kind) {
    case 'manifest':
      return `${base}/manifest.json`;
    case 'negotiated':
      return `${base}/${path.name}`;
    case 'rendition':
      return `${base}/${path.name}${path.revision ? `.${path.revision}` : ''}.${path.extension}`;
  }
}
