import { CONTROL_API_PREFIX } from '@mds/contract';
import type { Request, RequestHandler } from 'express';
import { rateLimit } from 'express-rate-limit';
import { AppError } from '../base/app-error.ts';
import { tokenOf } from './authenticate.ts';

const WINDOW_MS = 60_000;

/**
 * Limits the requests of each token in a minute, and reports the rest in `RateLimit` and `RateLimit-Policy` (IETF
 * draft-ietf-httpapi-ratelimit-headers-08). Minutes are fixed, and begin with a token's first request. Mounted after `requireToken`.
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
    skip: isExempt,
    // The library has already set Retry-After and the other fields.
    handler: (_req, res, next) =>
      next(
        new AppError(
          'rate_limited',
          `This token may send ${perMinute} requests a minute. Try again in ${res.getHeader('Retry-After')} seconds.`,
        ),
      ),
  });
}

/**
 * Requests that do not count: the parts of a resumable upload, whose clients would give up after a refusal, and the requests of points of
 * presence, whose number depends on their load.
 */
function isExempt({ method, originalUrl }: Request): boolean {
  if (originalUrl.startsWith(`${CONTROL_API_PREFIX}/edges/`)) return true;
  return originalUrl.startsWith(`${CONTROL_API_PREFIX}/uploads/`) && (method === 'PATCH' || method === 'HEAD');
}
