import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/** The header that carries a request's id, in and out. */
export const REQUEST_ID_HEADER = 'X-Request-Id';

/** What is taken over from a caller: nothing that could break a log line or a header. */
const SANE = /^[\w.-]{1,64}$/;

const ids = new WeakMap<IncomingMessage, string>();

/** Tells this process's ids from those of every other, and of every other start. */
const PREFIX = `req_${randomBytes(10).toString('hex')}`;
let made = 0;

/** A fresh request id: a random prefix for the process and a counter. Ids are unique and no secret, so that they need not be random. */
export function newRequestId(): string {
  made += 1;
  return PREFIX + made.toString(16).padStart(12, '0');
}

/** The id that the caller gave in `X-Request-Id`, where it is sane, else one of our own: another one at every call. */
export function makeRequestId({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const given = headers['x-request-id'];
  return typeof given === 'string' && SANE.test(given) ? given : newRequestId();
}

/** Gives a request its id. */
export function setRequestId(req: IncomingMessage, id: string): void {
  ids.set(req, id);
}

/** The id of a request: the one that it was given, else one that {@link makeRequestId} makes. The same at every call. */
export function requestIdOf(req: IncomingMessage): string {
  const known = ids.get(req);
  if (known !== undefined) return known;
  const id = makeRequestId(req);
  ids.set(req, id);
  return id;
}
