import type { IncomingMessage } from 'node:http';
import { TUS_VERSION } from '@mds/contract';
import { AppError } from '../base/app-error.ts';
import { badHeader } from './upload-problems.ts';

/** Methods that a POST may stand for, if a proxy between client and service allows no others. */
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

/** Headers that the library needs. It would refuse others, such as those of proxies. */
const PASSED_ON = /^(content-(type|length)|tus-resumable|upload-.+)$/;

/** The same request as a Fetch API Request. Only our own code reads its URL. */
export function webRequest(req: IncomingMessage, method: string, body: ReadableStream<Uint8Array> | null): Request {
  const headers = new Headers();
  for (const [name, value] of Object.entries(req.headers)) if (PASSED_ON.test(name)) headers.set(name, String(value));
  return new Request('http://service.invalid/', {
    method,
    headers,
    ...(body === null ? {} : { body, duplex: 'half' }),
  } as RequestInit);
}
