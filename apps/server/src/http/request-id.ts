import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/** The header of a request's id, in requests and answers. */
export const REQUEST_ID_HEADER = 'X-Request-Id';

/** Ids accepted from callers: nothing that could break a log line or a header. */
const VALID_ID = /^[\w.-]{1,64}$/;

const ids = new WeakMap<IncomingMessage, string>();

/** Distinguishes the ids of this process from those of every other process and start. */
const PREFIX = `req_${randomBytes(10).toString('hex')}`;
let made = 0;

/** A new request id: a random prefix of the process and a counter. Ids are unique but not secret, so they need not be random. */
export function newRequestId(): string {
  made += 1;
  return PREFIX + made.toString(16).padStart(12, '0');
}

/** The caller's `X-Request-Id` if it is valid, else a new id at every call. */
export function makeRequestId({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const given = headers['x-request-id'];
  return typeof given === 'string' && VALID_ID.test(given) ? given : newRequestId();
}

/** Gives a request its id. */
export function setRequestId(req: IncomingMessage, id: string): void {
  ids.set(req, id);
}

/** The id of a request: the one that was set, else one from {@link makeRequestId}. The same at every call. */
export function requestIdOf(req: IncomingMessage): string {
  const known = ids.get(req);
  if (known !== undefined) return known;
  const id = makeRequestId(req);
  ids.set(req, id);
  return id;
}
