import type { IncomingHttpHeaders } from 'node:http';
import { parseHttpDate } from './http-date.ts';

/** The validators of a representation. */
export interface Validators {
  /** A strong entity-tag, quotes included. */
  etag: string;
  /** Whole seconds, in milliseconds since the epoch. */
  lastModifiedMs: number;
}

const ENTITY_TAG = /(W\/)?("[\x21\x23-\x7e\x80-\xff]*")/y;
const BETWEEN = /[ \t]*(?:,[ \t]*)+|[ \t]*$/y;

/** The entity-tags of a list, or null if it is not a list. */
function parseEntityTags(field: string): { weak: boolean; opaque: string }[] | null {
  const tags: { weak: boolean; opaque: string }[] = [];
  let at = /^[ \t,]*/.exec(field)?.[0].length ?? 0;
  while (at < field.length) {
    ENTITY_TAG.lastIndex = at;
    const tag = ENTITY_TAG.exec(field);
    if (!tag) return null;
    BETWEEN.lastIndex = ENTITY_TAG.lastIndex;
    if (!BETWEEN.test(field)) return null;
    at = BETWEEN.lastIndex;
    tags.push({ weak: tag[1] !== undefined, opaque: tag[2] ?? '' });
  }
  return tags.length === 0 ? null : tags;
}

/** Whether any tag of the list names the representation. Strong comparison needs both tags strong (RFC 9110, 8.8.3.2). */
function matches(field: string, etag: string, comparison: 'strong' | 'weak'): boolean {
  if (field === etag || field === '*') return true;
  const tags = parseEntityTags(field);
  return tags?.some(({ weak, opaque }) => opaque === etag && (comparison === 'weak' || !weak)) ?? false;
}

/**
 * Decides the conditions of a GET or HEAD in the order of RFC 9110, 13.2.2.
 * @returns `failed`: 412; `not-modified`: 304; `proceed`: answer as if there were no condition
 */
export function evaluatePreconditions(
  headers: IncomingHttpHeaders,
  { etag, lastModifiedMs }: Validators,
): 'proceed' | 'not-modified' | 'failed' {
  const ifMatch = headers['if-match'];
  const ifUnmodifiedSince = headers['if-unmodified-since'];
  if (ifMatch !== undefined) {
    if (!matches(ifMatch, etag, 'strong')) return 'failed';
  } else if (ifUnmodifiedSince !== undefined) {
    const date = parseHttpDate(ifUnmodifiedSince);
    if (date !== null && lastModifiedMs > date) return 'failed';
  }
  const ifNoneMatch = headers['if-none-match'];
  const ifModifiedSince = headers['if-modified-since'];
  if (ifNoneMatch !== undefined) {
    if (matches(ifNoneMatch, etag, 'weak')) return 'not-modified';
  } else if (ifModifiedSince !== undefined) {
    const date = parseHttpDate(ifModifiedSince);
    if (date !== null && lastModifiedMs <= date) return 'not-modified';
  }
  return 'proceed';
}

/**
 * Whether a Range may be honoured under If-Range (RFC 9110, 13.1.5): the same strong entity-tag, or exactly the date of
 * the last modification.
 */
export function ifRangeHolds(field: string | undefined, { etag, lastModifiedMs }: Validators): boolean {
  if (field === undefined) return true;
  if (field.startsWith('"') || field.startsWith('W/')) return field === etag;
  return parseHttpDate(field) === lastModifiedMs;
}
