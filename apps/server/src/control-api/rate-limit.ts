import { CONTROL_API_PREFIX } from '@mds/contract';
import type { Request, RequestHandler } from 'express';
import { rateLimit } from 'express-rate-limit';
import { AppError } from '../base/app-error.ts';
import { tokenOf } from './authenticate.ts';

const WINDOW_MS = 60_000;

/**
 * Lets each token ask so many times a minute, and says in `RateLimit` and `RateLimit-Policy` (IETF draft-ietf-httpapi-ratelimit-headers-08)
 * how much of that is left. Minutes are fixed, and begin with a token's first request. To be mounted behind `requireToken`.
 * @param perMinute 0: no limit, and no fields
 * @throws AppError `rate_limited` with `Retry-After`, to the next error handler
 */
export function limitRate(perMinute: number): RequestHandler {
  if (perMinute === 0) return (_req, _res, next) => next();
  return rateLimit({
    windowMs: WINDOW_MS,
    limit: perMinute,
    standardHeaders: 'draft-8',
    legacyHeaders: false,
    identifier: 'token',
    keyGenerator: (req) => tokenOf(req).sha256,
    skip: continuesWhatWasCounted,
    // The fields and Retry-After are set by then.
    handler: (_req, res, next) =>
      next(
        new AppError(
          'rate_limited',
          `This token may ask ${perMinute} times a minute. Ask again in ${res.getHeader('Retry-After')} seconds.`,
        ),
      ),
  });
}

/**
 * The parts of a resumable upload, whose clients take a refusal half-way for the end of it, and what points of presence ask and report,
 * as often as their load wants it.
 */
function continuesWhatWasCounted({ method, originalUrl }: Request): boolean {
  if (originalUrl.startsWith(`${CONTROL_API_PREFIX}/edges/`)) return true;
  return originalUrl.startsWith(`${CONTROL_API_PREFIX}/uploads/`) && (method === 'PATCH' || method === 'HEAD');
}
