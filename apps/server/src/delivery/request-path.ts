import type { IncomingMessage } from 'node:http';

const ABSOLUTE_FORM = /^https?:\/\/[^/?#]*/i;

/**
 * The path that a request asks for, byte for byte as it came: query removed, nothing decoded, nothing normalised.
 * Takes the absolute form too (RFC 9112, 3.2.2), and sees through a router that has cut its own prefix off `url`.
 */
export function requestPath(request: Pick<IncomingMessage, 'url'> & { originalUrl?: string }): string {
  let target = request.originalUrl ?? request.url ?? '/';
  if (target.charCodeAt(0) !== 0x2f) target = target.replace(ABSOLUTE_FORM, '');
  const query = target.indexOf('?');
  return query < 0 ? target : target.slice(0, query);
}
