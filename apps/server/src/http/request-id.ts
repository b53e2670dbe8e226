import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/** The header that carries a request's id, in and out. */
export const REQUEST_ID_HEADER = 'X-Request-Id';

/** What is taken over from a caller: nothing that could break a log line or a header. */
const SANE = /^[\w.-]{1,64}$/;

const ids = new WeakMap<IncomingMessage, string>();

/** A fresh request id. */
export function newRequestId(): string {
  return `req_${randomUUID().replaceAll('-', '')}`;
}

/** The id of a request: the caller's `X-Request-Id` where it is sane, else one of our own. The same at every call. */
export function requestIdOf(req: IncomingMessage): string {
  const known = ids.get(req);
  if (known !== undefined) return known;
  const given = req.headers['x-request-id'];
  const id = typeof given === 'string' && SANE.test(given) ? given : newRequestId();
  ids.set(req, id);
  return id;
}
