import { DELIVERY_CACHE_CONTROL } from '@mds/contract';
import { type PreparedFields, prepareFields } from '../http/answer-sink.ts';
import { formatHttpDate } from './http-date.ts';
import type { ExpectedObject, OwnedObject, VerifiedBuffer } from './verified-body.ts';

/** The current content of a delivery path, with everything that is the same for every request. */
export interface Representation {
  mediaId: string;
  contentType: string;
  bytes: number;
  /** Strong, quotes included: the SHA-256 of the content. */
  etag: string;
  lastModifiedMs: number;
  /** The path of this representation, if Accept chose it. */
  contentLocation: string | null;
  /** The source of the bytes: an object of the store, or the database (manifests). */
  source: { kind: 'object'; object: ExpectedObject } | { kind: 'made'; body: VerifiedBuffer };
  headers: PreparedHeaders;
}

/** Header fields, as flat lists of names and values, made once for each representation. */
export interface PreparedHeaders {
  /** In every answer, 304 included. */
  always: readonly string[];
  /** In answers with content, beside `always`: its type, and that ranges are supported. */
  content: readonly string[];
  /** All fields of a 200 from the cache, the most frequent answer. */
  hit: PreparedFields;
  /** All fields of a 304 from the cache. */
  notModified: PreparedFields;
  /** The fields of `hit` that report the cache. */
  hitStatus: readonly string[];
}

/** Header fields of every answer of delivery, errors included: any page may read it, and no browser may guess its type. */
export const OPEN_TO_ALL = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Expose-Headers':
    'Accept-Ranges, Age, Cache-Status, Content-Length, Content-Location, Content-Range, ETag, Repr-Digest, Retry-After, X-Cache, X-Request-Id',
  'Cross-Origin-Resource-Policy': 'cross-origin',
  'Timing-Allow-Origin': '*',
  'X-Content-Type-Options': 'nosniff',
} as const;

const OPEN_TO_ALL_LIST = Object.entries(OPEN_TO_ALL).flat();

/** The object of a representation; null if its bytes are made here. */
export function ownedObjectOf({ mediaId, source }: Representation): OwnedObject | null {
  return source.kind === 'object' ? { mediaId, object: source.object } : null;
}

/** `Cache-Status` (RFC 9211) and `X-Cache`, which report the same decision. */
export function cacheHeaders(
  region: string,
  found: { cacheStatus: 'HIT' | 'MISS'; stored: boolean; collapsed: boolean },
  /** How long the content has been out of date, in seconds, if it is used nevertheless. */
  staleS?: number,
): string[] {
  const freshness = staleS === undefined ? '' : `; ttl=${staleS === 0 ? 0 : -staleS}`;
  if (found.cacheStatus === 'HIT') return ['Cache-Status', `${region}; hit${freshness}`, 'X-Cache', 'HIT'];
  const parameters = `fwd=uri-miss${found.stored ? '; stored' : ''}${found.collapsed ? '; collapsed' : ''}`;
  return ['Cache-Status', `${region}; ${parameters}`, 'X-Cache', 'MISS'];
}

/** Makes a representation and its header fields. @param nowMs Last-Modified is never later (RFC 9110, 8.8.2.1) */
export function createRepresentation(options: {
  mediaId: string;
  contentType: string;
  sha256: string;
  bytes: number;
  updatedAtMs: number;
  source: Representation['source'];
  region: string;
  caching: 'current' | 'immutable';
  /** The path of the representation, if Accept chose it. */
  contentLocation: string | null;
  nowMs: number;
}): Representation {
  const { mediaId, contentType, bytes, source } = options;
  const etag = `"${options.sha256}"`;
  const seconds = Math.floor(Math.min(options.updatedAtMs, options.nowMs) / 1000);
  const always = [
    'Cache-Control',
    DELIVERY_CACHE_CONTROL[options.caching],
    'ETag',
    etag,
    'Last-Modified',
    formatHttpDate(seconds * 1000),
    ...OPEN_TO_ALL_LIST,
  ];
  if (options.contentLocation !== null) always.push('Vary', 'Accept', 'Content-Location', options.contentLocation);
  // RFC 9530, 3: of the whole content, also beside a part of it.
  const digest = `sha-256=:${Buffer.from(options.sha256, 'hex').toString('base64')}:`;
  const content = ['Content-Type', contentType, 'Accept-Ranges', 'bytes', 'Repr-Digest', digest];
  const hitStatus = cacheHeaders(options.region, { cacheStatus: 'HIT', stored: true, collapsed: false });
  const hit = prepareFields([...content, 'Content-Length', String(bytes), ...always, ...hitStatus]);
  const notModified = prepareFields([...always, ...hitStatus]);
  return {
    mediaId,
    contentType,
    bytes,
    etag,
    lastModifiedMs: seconds * 1000,
    contentLocation: options.contentLocation,
    source,
    headers: { always, content, hit, notModified, hitStatus },
  };
}

/** A representation as one service sends it to another: its bytes and their hash, without fields for browsers. */
export function toObject(representation: Representation): Representation {
  const { etag, bytes } = representation;
  const content = ['Content-Type', 'application/octet-stream', 'Accept-Ranges', 'bytes'];
  const always = ['ETag', etag, 'Cache-Control', 'no-store'];
  const fields = [...content, 'Content-Length', String(bytes), ...always];
  return {
    ...representation,
    contentType: 'application/octet-stream',
    headers: {
      ...{ content, always, hitStatus: representation.headers.hitStatus },
      ...{ hit: prepareFields(fields), notModified: prepareFields(always) },
    },
  };
}
