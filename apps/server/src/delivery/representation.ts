import { DELIVERY_CACHE_CONTROL } from '@mds/contract';
import { type PreparedFields, prepareFields } from '../http/answer-sink.ts';
import { formatHttpDate } from './http-date.ts';
import type { ExpectedObject, OwnedObject, VerifiedBuffer } from './verified-body.ts';

/** What a delivery path stands for at the moment, with everything about it that is the same for every request. */
export interface Representation {
  mediaId: string;
  contentType: string;
  bytes: number;
  /** Strong, quotes included: the SHA-256 of the content. */
  etag: string;
  lastModifiedMs: number;
  /** The path of this very representation, where Accept chose it. */
  contentLocation: string | null;
  /** Where the bytes are: an object of the store, or made here from the database (manifests). */
  source: { kind: 'object'; object: ExpectedObject } | { kind: 'made'; body: VerifiedBuffer };
  headers: PreparedHeaders;
}

/** Fields, as lists of names and values in turn, made once for each representation. */
export interface PreparedHeaders {
  /** For every answer, 304 included. */
  always: readonly string[];
  /** For answers with content, beside `always`: what it is and that it can be had in parts. */
  content: readonly string[];
  /** All of a 200 out of the cache, the answer that is given most. */
  hit: PreparedFields;
  /** All of a 304 out of the cache. */
  notModified: PreparedFields;
  /** Those of `hit` that tell of the cache. */
  hitStatus: readonly string[];
}

/** Headers of everything that delivery answers, errors too: any page may read it, none may take it for something else. */
export const OPEN_TO_ALL = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Expose-Headers':
    'Accept-Ranges, Age, Cache-Status, Content-Length, Content-Location, Content-Range, ETag, Retry-After, X-Cache, X-Request-Id',
  'Cross-Origin-Resource-Policy': 'cross-origin',
  'Timing-Allow-Origin': '*',
  'X-Content-Type-Options': 'nosniff',
} as const;

const OPEN_TO_ALL_LIST = Object.entries(OPEN_TO_ALL).flat();

/** The object of a representation; null if its bytes are made here. */
export function ownedObjectOf({ mediaId, source }: Representation): OwnedObject | null {
  return source.kind === 'object' ? { mediaId, object: source.object } : null;
}

/** `Cache-Status` (RFC 9211) and `X-Cache`, the same decision said twice. */
export function cacheHeaders(
  region: string,
  found: { cacheStatus: 'HIT' | 'MISS'; stored: boolean; collapsed: boolean },
  /** How long what was found has been out of date, where it is used all the same. */
  staleS?: number,
): string[] {
  const freshness = staleS === undefined ? '' : `; ttl=${staleS === 0 ? 0 : -staleS}`;
  if (found.cacheStatus === 'HIT') return ['Cache-Status', `${region}; hit${freshness}`, 'X-Cache', 'HIT'];
  const parameters = `fwd=uri-miss${found.stored ? '; stored' : ''}${found.collapsed ? '; collapsed' : ''}`;
  return ['Cache-Status', `${region}; ${parameters}`, 'X-Cache', 'MISS'];
}

/** Puts a representation and its headers together. @param nowMs no Last-Modified lies after it (RFC 9110, 8.8.2.1) */
export function createRepresentation(options: {
  mediaId: string;
  contentType: string;
  sha256: string;
  bytes: number;
  updatedAtMs: number;
  source: Representation['source'];
  region: string;
  caching: 'current' | 'immutable';
  /** The path of the chosen representation, where Accept chose it. */
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
  const content = ['Content-Type', contentType, 'Accept-Ranges', 'bytes'];
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

/** A representation as one service hands it to another: its bytes and their name, nothing for browsers. */
export function asObject(representation: Representation): Representation {
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
