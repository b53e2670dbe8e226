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
  'Retry-After',
  'X-Cache',
  'X-Request-Id',
].join(', ');

const ALLOWED = [
  'Accept',
  'Cache-Control',
  'Content-Type',
  'If-Match',
  'If-Modified-Since',
  'If-None-Match',
  'If-Range',
  'If-Unmodified-Since',
  'Range',
  'X-Request-Id',
].join(', ');

/** Allows pages of every origin to read an answer and its headers. */
export function openToAll(res: ServerResponse): void {
  res.setHeader('Access-Control-Allow-Origin', '*');
  res.setHeader('Access-Control-Expose-Headers', EXPOSED);
  res.setHeader('Cross-Origin-Resource-Policy', 'cross-origin');
}

/** Allows pages of every origin to read public answers, and answers preflights. */
export function allowEveryOrigin(req: IncomingMessage, res: ServerResponse, next: () => void): void {
  openToAll(res);
  if (req.method !== 'OPTIONS' || req.headers['access-control-request-method'] === undefined) {
    next();
    return;
  }
  res.setHeader('Access-Control-Allow-Methods', 'GET, HEAD, OPTIONS');
  res.setHeader('Access-Control-Allow-Headers', ALLOWED);
  res.setHeader('Access-Control-Max-Age', '86400');
  res.setHeader('Cache-Control', 'no-store');
  res.statusCode = 204;
  res.end();
}
