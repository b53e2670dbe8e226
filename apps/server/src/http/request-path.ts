import type { IncomingMessage } from 'node:http';
import { AppError } from '../base/app-error.ts';

/** The path of a request target in origin form, without its query and with its percent-encoding untouched. */
export function pathOf(url: string): string {
  const end = url.search(/[?#]/);
  return end < 0 ? url : url.slice(0, end);
}

/**
 * Converts a request target in absolute form to origin form (`/path?query`), the only one that routes know. RFC 9112, 3.2.2: a server must
 * accept the absolute form from every client, and its authority wins over Host.
 */
export function toOriginForm(req: IncomingMessage): void {
  const absolute = /^https?:\/\/([^/?#]*)([^#]*)/i.exec(req.url ?? '');
  if (!absolute) return;
  const [, authority = '', rest = ''] = absolute;
  req.headers.host = authority;
  req.url = rest.startsWith('/') ? rest : `/${rest}`;
}

/**
 * Whether two servers may interpret a request differently: it has several hosts, no host or an invalid one, or an HTTP version that this
 * service does not support.
 */
export function isAmbiguous(req: IncomingMessage): boolean {
  return req.httpVersionMajor !== 1 || hasSeveralHosts(req) || lacksHost(req) || !isHost(req.headers.host);
}

/** RFC 9112, 3.2: an HTTP/1.1 request without Host is refused; HTTP/1.0 has none. */
function lacksHost({ headers, httpVersionMinor }: IncomingMessage): boolean {
  return headers.host === undefined && httpVersionMinor >= 1;
}

/** `uri-host [ ":" port ]` (RFC 9110, 7.2; RFC 3986, 3.2.2), or empty. */
const HOST = /^(?:\[[\da-fA-F:.]+\]|[\w.~!$&'()*+,;=%-]*)(?::\d*)?$/;

/** Whether a value is valid for Host. */
export function isHost(value: string | undefined): boolean {
  return value === undefined || HOST.test(value);
}

function hasSeveralHosts({ rawHeaders }: IncomingMessage): boolean {
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? '';
    if (name.length === 4 && name.toLowerCase() === 'host') hosts += 1;
  }
  return hosts > 1;
}

/**
 * Refuses a request with an invalid host or target, before anything decodes it.
 * @throws AppError `invalid_request`
 */
export function refuseBadTarget(req: IncomingMessage): void {
  const url = req.url ?? '/';
  if (req.httpVersionMajor !== 1) {
    throw new AppError(
      'invalid_request',
      'This service does not support the HTTP version of the request. Use HTTP/1.1.',
    );
  }
  // RFC 9112, 3.2.
  if (hasSeveralHosts(req)) {
    throw new AppError(
      'invalid_request',
      'The request has more than one Host header. Send only the host name of the service.',
    );
  }
  if (!url.startsWith('/')) {
    throw new AppError('invalid_request', 'The request target must be a path that begins with a slash.');
  }
  if (lacksHost(req)) {
    throw new AppError('invalid_request', 'The request has no Host header. Send the host name of the service.');
  }
  if (!isHost(req.headers.host)) {
    throw new AppError(
      'invalid_request',
      'The Host header is not a host name with an optional port. Send the host name of the service.',
    );
  }
  const path = pathOf(url);
  if (path.includes('%') && !isDecodable(path)) {
    throw new AppError(
      'invalid_request',
      'The percent-encoding of the URL is broken. Encode each byte of UTF-8 as % and two hex digits.',
    );
  }
}

function isDecodable(path: string): boolean {
  try {
    decodeURIComponent(path);
    return true;
  } catch {
    return false;
  }
}
