import type { ErrorRequestHandler, NextFunction, Request, RequestHandler, Response } from 'express';
import express from 'express';
import { AppError } from '../base/app-error.ts';

/** More than a report of {@link MAX_REPORTED_DELIVERIES} with the longest paths takes. */
const MAX_BODY_BYTES = 4 * 1024 * 1024;

/** Parses JSON bodies and refuses others. Mounted before the routes that take JSON. */
export function jsonBodies(): (RequestHandler | ErrorRequestHandler)[] {
  return [requireJson, express.json({ limit: MAX_BODY_BYTES, strict: false }), explainBrokenBody];
}

function requireJson(req: Request, _res: Response, next: NextFunction): void {
  const { 'content-length': length, 'transfer-encoding': coding, 'content-type': type } = req.headers;
  const hasBody = coding !== undefined || (length !== undefined && length !== '0');
  if (hasBody && !req.is('application/json')) {
    throw new AppError(
      'unsupported_content_type',
      `This endpoint takes JSON, with Content-Type: application/json${type === undefined ? '' : `, not ${type.slice(0, 100)}`}.`,
    );
  }
  // The parser would read the whole body before it refuses it.
  if (Number(length ?? 0) > MAX_BODY_BYTES) throw tooLarge();
  next();
}

function tooLarge(cause?: unknown): AppError {
  return new AppError('payload_too_large', `The body is too large. The limit is ${MAX_BODY_BYTES} bytes.`, { cause });
}

/** Errors of body-parser have a `type`. An unknown one is not the caller's fault. */
function explainBrokenBody(error: unknown, _req: Request, _res: Response, next: NextFunction): void {
  switch ((error as { type?: unknown }).type) {
    case 'entity.parse.failed':
      next(new AppError('invalid_request', 'The body is not valid JSON.', { cause: error }));
      return;
    case 'entity.too.large':
      next(tooLarge(error));
      return;
    case 'charset.unsupported':
    case 'encoding.unsupported':
      next(new AppError('unsupported_content_type', 'Send the JSON in UTF-8.', { cause: error }));
      return;
    case 'request.aborted':
    case 'request.size.invalid':
      next(
        new AppError('incomplete_body', 'The body ended before its declared length. Send it again.', { cause: error }),
      );
      return;
    default:
      next(error);
  }
}
