import type { IncomingMessage } from 'node:http';
import { TUS_VERSION } from '@mds/contract';
import { AppError } from '../base/app-error.ts';
import { badHeader } from './upload-problems.ts';

/** What the protocol lets a POST stand for, where something between client and service knows no other methods. */
const OVERRIDES = new Set(['PATCH', 'DELETE', 'HEAD']);
const SIZE = /^\d{1,15}$/;

/** The method that a request means (tus 1.0.0, X-HTTP-Method-Override). */
export function uploadMethodOf(req: IncomingMessage): string {
  const override = req.headers['x-http-method-override'];
  return req.method === 'POST' && typeof override === 'string' && OVERRIDES.has(override)
    ? override
    : (req.method ?? '');
}

/**
 * Checks what the protocol asks of every request but OPTIONS.
 * @throws AppError `tus_version_unsupported`, `invalid_request`
 */
export function requireUploadHeaders(req: IncomingMessage): void {
  if (req.headers['tus-resumable'] !== TUS_VERSION) {
    throw new AppError(
      'tus_version_unsupported',
      `This is the protocol tus ${TUS_VERSION}: send it with a tus client, or with the header Tus-Resumable: ${TUS_VERSION}.`,
      { headers: { 'Tus-Version': TUS_VERSION } },
    );
  }
  for (const name of ['upload-offset', 'upload-length']) {
    const value = req.headers[name];
    if (value !== undefined && !SIZE.test(String(value))) throw badHeader(name, 'must be a whole number of bytes');
  }
}

/** What the library has to do with; others, such as those of proxies, it would only find fault with. */
const PASSED_ON = /^(content-(type|length)|tus-resumable|upload-.+)$/;

/** The same request as the web's interfaces have it. The address is only ever looked at by us. */
export function webRequest(req: IncomingMessage, method: string, body: ReadableStream<Uint8Array> | null): Request {
  const headers = new Headers();
  for (const [name, value] of Object.entries(req.headers)) if (PASSED_ON.test(name)) headers.set(name, String(value));
  return new Request('http://service.invalid/', {
    method,
    headers,
    ...(body === null ? {} : { body, duplex: 'half' }),
  } as RequestInit);
}
