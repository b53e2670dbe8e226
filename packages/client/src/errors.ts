import type { Fetch, MediaDetail, MediaFailure, Problem, ProblemCode, ProblemIssue } from '@mds/contract';

/** Base of everything that this package throws, but for the reason of the caller's own AbortSignal. */
export class MdsError extends Error {
  override name = 'MdsError';
}

/** The client was set up or called in a way that cannot work; nothing was sent. */
export class ConfigurationError extends MdsError {
  override name = 'ConfigurationError';
}

/** A control call was made by a client that has no token; nothing was sent. */
export class MissingTokenError extends ConfigurationError {
  override name = 'MissingTokenError';
}

/** What a request was, as errors show it. */
export interface RequestLine {
  method: string;
  /** The whole address; user name and password removed. */
  url: string;
}

/** No answer came: nobody listens, the name does not resolve, the connection broke. The reason is in `cause`. */
export class ConnectionError extends MdsError {
  override name = 'ConnectionError';
  readonly method: string;
  readonly url: string;
  /** The system's code where there is one: `ECONNREFUSED`, `ENOTFOUND`, `ECONNRESET`… */
  readonly code: string | null;

  constructor({ method, url }: RequestLine, reason: string, code: string | null, cause: unknown) {
    super(`${method} ${url} got no answer: ${reason}`, { cause });
    this.method = method;
    this.url = url;
    this.code = code;
  }
}

/** What was waited for did not come in time. */
export class TimeoutError extends MdsError {
  override name = 'TimeoutError';
  /** How long was waited, in milliseconds. */
  readonly timeoutMs: number;

  constructor(message: string, timeoutMs: number) {
    super(message);
    this.timeoutMs = timeoutMs;
  }
}

/** What an {@link ApiError} is made of. */
export interface ApiErrorDetails extends RequestLine {
  status: number;
  /** The problem document, or null where the body is none. */
  problem: Problem | null;
  /** The code that a header says, where there is no problem document. */
  code?: ProblemCode | null;
  requestId: string | null;
  retryAfterMs: number | null;
  /** What went wrong, as a sentence. */
  reason: string;
}

/** The service, or a proxy before it, answered with an error or with something that is not this API's. */
export class ApiError extends MdsError {
  override name = 'ApiError';
  readonly method: string;
  readonly url: string;
  /** HTTP status. */
  readonly status: number;
  /** Stable problem code; null where the answer was not a problem. A newer service may have codes unknown here. */
  readonly code: ProblemCode | null;
  /** The problem document (RFC 9457), null where there was none. */
  readonly problem: Problem | null;
  /** Quote it when asking the operator. */
  readonly requestId: string | null;
  /** What the service's Retry-After asks for, in milliseconds; null where it asks for nothing. */
  readonly retryAfterMs: number | null;
  /** How many requests were made, the last one included. */
  attempts = 1;

  constructor(details: ApiErrorDetails) {
    const { method, url, status, problem, requestId, reason } = details;
    const code = problem?.code ?? details.code ?? null;
    super(
      `${method} ${url} answered ${status}${code ? ` ${code}` : ''}: ${reason}${requestId ? ` (request ${requestId})` : ''}`,
    );
    this.method = method;
    this.url = url;
    this.status = status;
    this.code = code;
    this.problem = problem;
    this.requestId = requestId;
    this.retryAfterMs = details.retryAfterMs;
  }

  /** What was wrong with which piece of input; empty where the service named none. */
  get issues(): readonly ProblemIssue[] {
    return this.problem?.errors ?? [];
  }
}

/** 400, 413, 415 or 422: what was sent is not acceptable, and will not be when sent again. */
export class InvalidRequestError extends ApiError {
  override name = 'InvalidRequestError';
}

/** 401: a valid token is needed. */
export class UnauthorizedError extends ApiError {
  override name = 'UnauthorizedError';
}

/** 403: the token does not allow this. */
export class ForbiddenError extends ApiError {
  override name = 'ForbiddenError';
}

/** 404: no such media object, rendition, region or path. */
export class NotFoundError extends ApiError {
  override name = 'NotFoundError';
}

/** 409: the state of the media object or the region does not allow this, or the Idempotency-Key was used for another request. */
export class ConflictError extends ApiError {
  override name = 'ConflictError';
}

/** 429: too many requests. {@link ApiError.retryAfterMs} says when to come back. */
export class RateLimitError extends ApiError {
  override name = 'RateLimitError';
}

/** A media object that was waited for has failed. */
export class MediaFailedError extends MdsError {
  override name = 'MediaFailedError';
  readonly media: MediaDetail;
  /** Why; null where the service did not say. */
  readonly failure: MediaFailure | null;

  constructor(media: MediaDetail) {
    const why = media.error ? `${media.error.code}: ${media.error.message}` : 'no reason given';
    super(`${media.id} failed: ${why}`);
    this.media = media;
    this.failure = media.error;
  }
}

/** A URL that was to be ingested did not become a media object: the service could not fetch it, did not accept it, or was told to cancel. */
export class FetchFailedError extends MdsError {
  override name = 'FetchFailedError';
  readonly fetch: Fetch;
  /** Why; null where it was canceled. */
  readonly failure: MediaFailure | null;
  /** The code of the failure, one of the problem codes: `source_refused`, `unsupported_format`… Null where it was canceled. */
  readonly code: string | null;

  constructor(fetch: Fetch) {
    const why = fetch.error ? `${fetch.error.code}: ${fetch.error.message}` : 'it was canceled';
    super(`${fetch.id} of ${fetch.source_url} did not become a media object: ${why}`);
    this.fetch = fetch;
    this.failure = fetch.error;
    this.code = fetch.error?.code ?? null;
  }
}

const BY_STATUS: Readonly<Record<number, new (details: ApiErrorDetails) => ApiError>> = {
  400: InvalidRequestError,
  401: UnauthorizedError,
  403: ForbiddenError,
  404: NotFoundError,
  409: ConflictError,
  413: InvalidRequestError,
  415: InvalidRequestError,
  422: InvalidRequestError,
  429: RateLimitError,
};

/** The {@link ApiError}, or its subclass, that stands for an answer's status. */
export function apiError(details: ApiErrorDetails): ApiError {
  const Kind = BY_STATUS[details.status] ?? ApiError;
  return new Kind(details);
}
