import { createHash } from 'node:crypto';
import { AppError } from './app-error.ts';

/**
 * A cursor is the id that a page ended with: base64url of a version byte, the id's token and the start of a hash over
 * kind of list, version, project and token. The hash is no secret. It detects a cursor that was cut,
 * retyped, or taken from another list or project.
 */
const VERSION = 1;
const TOKEN_BYTES = 26;
const CHECK_BYTES = 6;
const TEXT_LENGTH = Math.ceil(((1 + TOKEN_BYTES + CHECK_BYTES) * 4) / 3);

/** The ids of each kind of list: their prefix, and the form of the 26 characters after it. */
const LISTS = {
  media: { prefix: 'med_', token: /^[0-9a-z]{26}$/ },
  fetches: { prefix: 'fch_', token: /^[0-9a-z]{26}$/ },
  // A safe integer of JavaScript.
  jobs: { prefix: 'job-', token: /^0{11}\d{15}$/ },
} as const;
export type ListKind = keyof typeof LISTS;

/** The cursor of the page after the record with this id. */
export function encodeCursor(projectId: string, lastId: string, kind: ListKind = 'media'): string {
  const token = lastId.slice(LISTS[kind].prefix.length);
  const check = checkOf(kind, projectId, token);
  return Buffer.concat([Buffer.from([VERSION]), Buffer.from(token, 'latin1'), check]).toString('base64url');
}

/**
 * The id that the page starts after; null without a cursor.
 * @throws AppError `invalid_cursor` if {@link encodeCursor} did not make it for this project and list
 */
export function decodeCursor(projectId: string, cursor: string | undefined, kind: ListKind = 'media'): string | null {
  if (cursor === undefined) return null;
  const bytes = Buffer.from(cursor, 'base64url');
  const token = bytes.toString('latin1', 1, 1 + TOKEN_BYTES);
  // Buffer ignores characters that are not base64url, so encoding the bytes must give the same text.
  const valid =
    cursor.length === TEXT_LENGTH &&
    bytes.toString('base64url') === cursor &&
    bytes[0] === VERSION &&
    LISTS[kind].token.test(token) &&
    checkOf(kind, projectId, token).equals(bytes.subarray(1 + TOKEN_BYTES));
  if (valid) return `${LISTS[kind].prefix}${token}`;
  const message = 'must be the next_cursor of a previous answer, unchanged';
  throw new AppError(
    'invalid_cursor',
    'This cursor was not made by this list. Take next_cursor from the previous page unchanged, or leave cursor out to start again.',
    { issues: [{ in: 'query', path: 'cursor', message }] },
  );
}

function checkOf(kind: ListKind, projectId: string, token: string): Buffer {
  return createHash('sha256').update(`${kind}:${VERSION}:${projectId}:${token}`).digest().subarray(0, CHECK_BYTES);
}

/** Cuts off the row that was read beyond the page, and makes the cursor of the next page from it. */
export function pageOf<T extends { id: string }>(
  rows: T[],
  limit: number,
  projectId: string,
  kind: ListKind = 'media',
): { page: T[]; nextCursor: string | null } {
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  return { page, nextCursor: rows.length > limit && last ? encodeCursor(projectId, last.id, kind) : null };
}

/** The Link header of a page (RFC 8288): the next one, with the same limit and filters. */
export function nextLink(path: string, query: Record<string, string | number | undefined>): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) parameters.set(name, String(value));
  return `<${path}?${parameters}>; rel="next"`;
}
