import type { IncomingMessage } from 'node:http';

const ABSOLUTE_FORM = /^https?:\/\/[^/?#]*/i;

/**
 * The requested path, byte for byte: without the query, neither decoded nor normalised. Accepts the absolute form too
 * (RFC 9112, 3.2.2), and uses the original URL if a router has removed its own prefix from `url`.
 */
export function requestPath(request: Pick<IncomingMessage, 'url'> & { originalUrl?: string }): string {
  let target = request.originalUrl ?? request.url ?? '/';
  if (target.charCodeAt(0) !== 0x2f) target = target.replace(ABSOLUTE_FORM, '');
  const query = target.indexOf('?');
  return query < 0 ? target : target.slice(0, query);
}
