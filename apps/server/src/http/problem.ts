import type { IncomingMessage, ServerResponse } from 'node:http';
import { PROBLEM_CONTENT_TYPE, PROBLEMS, type Problem, type ProblemCode } from '@mds/contract';
import type { Logger } from 'pino';
import { AppError } from '../base/app-error.ts';
import { REQUEST_ID_HEADER, requestIdOf } from './request-id.ts';
import { pathOf } from './request-path.ts';
import { endAnswer } from './unread-body.ts';

/** Path prefix of problem types, used in the `type` of every problem document. */
export const PROBLEM_TYPES_PREFIX = '/problems';

/** Headers that belong to the answer which the problem replaces. */
const REPLACED_HEADERS = [
  'Accept-Ranges',
  'Cache-Control',
  'Content-Disposition',
  'Content-Encoding',
  'Content-Length',
  'Content-Range',
  'Content-Security-Policy',
  'Content-Type',
  'ETag',
  'Last-Modified',
  'Link',
  'Location',
];

/**
 * The problem document (RFC 9457) of any error. An error other than {@link AppError} becomes `internal_error`, and its
 * message is not shown.
 * @param instance the path that was asked for
 */
export function problemOf(error: unknown, request: { instance: string; requestId: string }): Problem {
  const known = knownError(error);
  const code: ProblemCode = known?.code ?? 'internal_error';
  const problem: Problem = {
    type: `${PROBLEM_TYPES_PREFIX}/${code}`,
    title: PROBLEMS[code].title,
    status: PROBLEMS[code].status,
    detail:
      known?.message ??
      `An internal error occurred. Try again; if it persists, report the request id ${request.requestId} to the operator.`,
    instance: request.instance.slice(0, 1024),
    code,
    request_id: request.requestId,
  };
  return known?.issues ? { ...problem, errors: known.issues } : problem;
}

const outages = new WeakMap<object, AppError>();

/** The error of a request that was refused because a dependency does not answer; undefined if there was none. */
export function outageOf(req: object): AppError | undefined {
  return outages.get(req);
}

/**
 * Answers a request with the problem document of an error; the only place that does. Uses plain `node:http`, so that answers outside
 * Express can use it. An unexpected error is logged with the request's id.
 */
export function sendProblem(
  req: IncomingMessage & { originalUrl?: string },
  res: ServerResponse,
  error: unknown,
  logger: Logger,
): void {
  const requestId = requestIdOf(req);
  const known = knownError(error);
  if (!known) logger.error({ err: error, requestId }, 'unexpected error');
  if (known?.code === 'unavailable') outages.set(req, known);
  if (res.headersSent) {
    // A part of the answer is sent: only closing the connection can show that the rest is missing.
    if (!res.writableEnded) res.destroy();
    return;
  }
  const problem = problemOf(error, { instance: pathOf(req.originalUrl ?? req.url ?? '/'), requestId });
  const body = Buffer.from(JSON.stringify(problem));
  for (const name of REPLACED_HEADERS) res.removeHeader(name);
  res.statusCode = problem.status;
  res.setHeader('Cache-Control', 'no-store');
  res.setHeader('X-Content-Type-Options', 'nosniff');
  res.setHeader(REQUEST_ID_HEADER, requestId);
  for (const [name, value] of Object.entries(known?.headers ?? {})) res.setHeader(name, value);
  res.setHeader('Content-Type', PROBLEM_CONTENT_TYPE);
  res.setHeader('Content-Length', body.length);
  endAnswer(req, res, body);
}

/** An error that the client may see: an AppError, or Express's error for a URL that it cannot decode. */
function knownError(error: unknown): AppError | null {
  if (error instanceof AppError) return error;
  if (error instanceof URIError) {
    return new AppError('invalid_request', 'The percent-encoding of the URL is broken.', { cause: error });
  }
  return null;
}
