import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { endAnswer } from './unread-body.ts';

/** A complete successful answer. */
export interface Answer {
  status: number;
  contentType: string;
  cacheControl: string;
  body: Buffer;
  /** Strong validator; null if the answer must not be stored. */
  etag: string | null;
}

/** Content type of JSON answers, exactly: RFC 8259 defines no `charset` parameter. */
export const JSON_CONTENT_TYPE = 'application/json';

/** Makes an answer. Its ETag is a hash of its bytes, so equal answers have equal tags in every process. */
export function makeAnswer(parts: {
  body: string | Buffer;
  cacheControl: string;
  contentType?: string;
  status?: number;
}): Answer {
  const body = typeof parts.body === 'string' ? Buffer.from(parts.body) : parts.body;
  const status = parts.status ?? 200;
  const cacheable = status === 200 && !parts.cacheControl.includes('no-store');
  return {
    status,
    contentType: parts.contentType ?? JSON_CONTENT_TYPE,
    cacheControl: parts.cacheControl,
    body,
    etag: cacheable ? `"${createHash('sha256').update(body).digest('base64url').slice(0, 27)}"` : null,
  };
}

const onAnswers = new WeakMap<ServerResponse, (answer: Answer) => void>();

/** Calls `see` with the complete answer before it is sent, even if it is sent as 304 or to HEAD. */
export function onAnswer(res: ServerResponse, see: (answer: Answer) => void): void {
  onAnswers.set(res, see);
}

/** Calls `then` when the head of the answer is sent, or when the response closes without one. Every head passes `writeHead`. */
export function whenAnswered(res: ServerResponse, then: () => void): void {
  const writeHead = res.writeHead;
  res.writeHead = ((...args: Parameters<typeof writeHead>) => {
    then();
    return writeHead.apply(res, args);
  }) as typeof writeHead;
  res.once('close', then);
}

/** Sends an answer, 304 if the client already has it, or only its headers to HEAD (RFC 9110, 13.1.2 and 9.3.2). */
export function sendAnswer(req: IncomingMessage, res: ServerResponse, answer: Answer): void {
  onAnswers.get(res)?.(answer);
  res.setHeader('Cache-Control', answer.cacheControl);
  if (answer.etag !== null) {
    res.setHeader('ETag', answer.etag);
    if (isRead(req) && matchesEtag(req.headers['if-none-match'], answer.etag)) {
      res.statusCode = 304;
      endAnswer(req, res, '');
      return;
    }
  }
  res.statusCode = answer.status;
  res.setHeader('Content-Type', answer.contentType);
  res.setHeader('Content-Length', answer.body.length);
  endAnswer(req, res, answer.body);
}

function isRead(req: IncomingMessage): boolean {
  return req.method === 'GET' || req.method === 'HEAD';
}

/** Whether an If-None-Match field names the entity tag: `*`, or a list compared weakly (RFC 9110, 13.1.2). */
export function matchesEtag(field: string | undefined, etag: string): boolean {
  if (field === undefined) return false;
  if (field.trim() === '*') return true;
  // An entity tag may contain commas, so the list is read tag by tag instead of split.
  for (const [, tag] of field.matchAll(/(?:W\/)?("[\x21\x23-\x7e\x80-\xff]*")/g)) {
    if (tag === etag) return true;
  }
  return false;
}
