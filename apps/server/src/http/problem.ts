import type { IncomingMessage, ServerResponse } from 'node:http';
import { PROBLEM_CONTENT_TYPE, PROBLEMS, type Problem, type ProblemCode } from '@mds/contract';
import type { Logger } from 'pino';
import { AppError } from '../base/app-error.ts';
import { REQUEST_ID_HEADER, requestIdOf } from './request-id.ts';
import { pathOf } from './request-path.ts';
import { endAnswer } from './unread-body.ts';

/** Where a problem type is described; the `type` of every problem document. */
export const PROBLEM_TYPES_PREFIX = '/problems';

/** Headers that belong to an answer that is not given now. */
const OF_ANOTHER_ANSWER = [
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
 * The problem document (RFC 9457) of any error. What is not an {@link AppError} becomes `internal_error` and keeps its
 * message to itself.
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
      `Something went wrong in the service. Try again; if it lasts, tell its operator the request id ${request.requestId}.`,
    instance: request.instance.slice(0, 1024),
    code,
    request_id: request.requestId,
  };
  return known?.issues ? { ...problem, errors: known.issues } : problem;
}

const outages = new WeakMap<object, AppError>();

/** The error by which a request was refused as something that the service needs does not answer; undefined: it was not. */
export function outageOf(req: object): AppError | undefined {
  return outages.get(req);
}

/**
 * Answers a request with the problem document of an error; the one place that does. Plain `node:http`, so that answers
 * that do not pass through Express can use it. What nobody foresaw is logged with the request's id.
 */
export function sendProblem(
  req: IncomingMessage & { originalUrl?: string },
  res: ServerResponse,
  error: unknown,
  logger: Logger,
): void {
  const requestId = requestIdOf(req);
  const known = knownError(error);
  if (!known) logger.error({ err: error, requestId }, 'an error that nobody foresaw');
  if (known?.code === 'unavailable') outages.set(req, known);
  if (res.headersSent) {
    // Half an answer is out: cutting the connection is the only way left to say that the rest is missing.
    if (!res.writableEnded) res.destroy();
    return;
  }
  const problem = problemOf(error, { instance: pathOf(req.originalUrl ?? req.url ?? '/'), requestId });
  const body = Buffer.from(JSON.stringify(problem));
  for (const name of OF_ANOTHER_ANSWER) res.removeHeader(name);
  res.statusCode = problem.status;
  res.setHeader('Cache-Control', 'no-store');
  res.setHeader('X-Content-Type-Options', 'nosniff');
  res.setHeader(REQUEST_ID_HEADER, requestId);
  for (const [name, value] of Object.entries(known?.headers ?? {})) res.setHeader(name, value);
  res.setHeader('Content-Type', PROBLEM_CONTENT_TYPE);
  res.setHeader('Content-Length', body.length);
  endAnswer(req, res, body);
}

/** An error that its caller may see: ours, or what Express says of a URL that it cannot decode. */
function knownError(error: unknown): AppError | null {
  if (error instanceof AppError) return error;
  if (error instanceof URIError) {
    return new AppError('invalid_request', 'The percent-encoding of the URL is broken.', { cause: error });
  }
  return null;
}
