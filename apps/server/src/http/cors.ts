import type { IncomingMessage, ServerResponse } from 'node:http';

const EXPOSED = [
  'Accept-Ranges',
  'Age',
  'Cache-Status',
  'Content-Length',
  'Content-Range',
  'ETag',
  'Last-Modified',
  'Link',
  'Repr-Digest',
  'Retry-After',
  'X-Cache',
  'X-Request-Id',
].join(', ');

/** Allows pages of every origin to read an answer and its headers. */
export function openToAll(res: ServerResponse): void {
  res.setHeader('Access-Control-Allow-Origin', '*');
  res.setHeader('Access-Control-Expose-Headers', EXPOSED);
  res.setHeader('Cross-Origin-Resource-Policy', 'cross-origin');
  // Pages may measure how long their requests took (W3C Resource Timing, 4.5.1).
  res.setHeader('Timing-Allow-Origin', '*');
}

/** Allows pages of every origin to read public answers, and answers preflights. */
export function allowEveryOrigin(req: IncomingMessage, res: ServerResponse, next: () => void): void {
  openToAll(res);
  if (req.method !== 'OPTIONS' || req.headers['access-control-request-method'] === undefined) {
    next();
    return;
  }
  res.setHeader('Access-Control-Allow-Methods', 'GET, HEAD, OPTIONS');
  // Nothing here needs credentials. Players send fields of their own (CTA-5004), and pages those of their traces.
  res.setHeader('Access-Control-Allow-Headers', '*');
  res.setHeader('Access-Control-Max-Age', '86400');
  res.setHeader('Cache-Control', 'no-store');
  res.statusCode = 204;
  res.end();
}
