import type { IncomingHttpHeaders } from 'node:http';

/** A Last-Modified is strong once the second that it names is over (RFC 9110, 8.8.2.2). */
const STRONG_AFTER_MS = 1_000;

/**
 * The validator for a later `If-Range` (RFC 9110, 13.1.5): a strong entity tag, or else a strong Last-Modified. Null if the source sent
 * neither, or does not support ranges.
 */
export function validatorOf(headers: IncomingHttpHeaders): string | null {
  if (headers['accept-ranges']?.trim().toLowerCase() === 'none') return null;
  const tag = headers.etag?.trim();
  // RFC 9110, 8.8.3. A weak one begins with W/ and promises no equal bytes.
  if (tag !== undefined) return /^"[\x21\x23-\x7e]{0,512}"$/.test(tag) ? tag : null;
  const { 'last-modified': lastModified, date } = headers;
  if (lastModified === undefined || date === undefined) return null;
  const age = Date.parse(date) - Date.parse(lastModified);
  return age >= STRONG_AFTER_MS && lastModified.length < 64 ? lastModified : null;
}

/** The position of a partial answer: its first byte, and the size of the whole file. */
export interface ContentRange {
  from: number;
  totalBytes: number;
}

/** A Content-Range with a known size (RFC 9110, 14.4); null for any other. */
export function contentRangeOf(field: string | undefined): ContentRange | null {
  const match = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15})$/.exec(field?.trim() ?? '');
  if (!match) return null;
  const [from, to, totalBytes] = match.slice(1).map(Number) as [number, number, number];
  return from <= to && to < totalBytes ? { from, totalBytes } : null;
}

/** The size that a Content-Length announces; null if there is none. */
export function contentLengthOf(field: string | undefined): number | null {
  return field !== undefined && /^\d{1,15}$/.test(field) ? Number(field) : null;
}
