import type { Fetch, MediaDetail, MediaFailure, Problem, ProblemCode, ProblemIssue } from '@mds/contract';

/** Base class of all errors that this package throws, except for the reason of the caller's own AbortSignal. */
export class MdsError extends Error {
  override name = 'MdsError';
}

/** An option or argument is invalid; nothing was sent. */
export class ConfigurationError extends MdsError {
  override name = 'ConfigurationError';
}

/** A call to the control API needs a token, and the client has none; nothing was sent. */
export class MissingTokenError extends ConfigurationError {
  override name = 'MissingTokenError';
}

/** Method and address of a request, as shown in errors. */
export interface RequestLine {
  method: string;
  /** The whole address, without user name and password. */
  url: string;
}

/** No answer arrived: nothing listens, the name does not resolve, or the connection broke. The reason is in `cause`. */
export class ConnectionError extends MdsError {
  override name = 'ConnectionError';
  readonly method: string;
  readonly url: string;
  /** The system's error code, if there is one: `ECONNREFUSED`, `ENOTFOUND`, `ECONNRESET`… */
  readonly code: string | null;

  constructor({ method, url }: RequestLine, reason: string, code: string | null, cause: unknown) {
    super(`${method} ${url} got no answer: ${reason}`, { cause });
    this.method = method;
    this.url = url;
    this.code = code;
  }
}

/** A time limit was exceeded. */
export class TimeoutError extends MdsError {
  override name = 'TimeoutError';
  /** The time limit in milliseconds. */
  readonly timeoutMs: number;

  constructor(message: string, timeoutMs: number) {
    super(message);
    this.timeoutMs = timeoutMs;
  }
}

/** Parts of an {@link ApiError}. */
export interface ApiErrorDetails extends RequestLine {
  status: number;
  /** The problem document; null if the body is none. */
  problem: Problem | null;
  /** The code from a header, if there is no problem document. */
  code?: ProblemCode | null;
  requestId: string | null;
  retryAfterMs: number | null;
  /** The reason, as a sentence. */
  reason: string;
}

/** The service, or a proxy in front of it, answered with an error or with something that does not belong to this API. */
export class ApiError extends MdsError {
  override name = 'ApiError';
  readonly method: string;
  readonly url: string;
  /** HTTP status. */
  readonly status: number;
  /** Stable problem code; null if the answer was no problem document. A newer service may send codes that are unknown here. */
  readonly code: ProblemCode | null;
  /** The problem document (RFC 9457); null if there was none. */
  readonly problem: Problem | null;
  /** Id to quote when reporting the error to the operator. */
  readonly requestId: string | null;
  /** The pause that Retry-After asks for, in milliseconds; null if there is none. */
  readonly retryAfterMs: number | null;
  /** Number of requests sent, including the last one. */
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

  /** The invalid inputs, each with its reason; empty if the service named none. */
  get issues(): readonly ProblemIssue[] {
    return this.problem?.errors ?? [];
  }
}

/** 400, 413, 415 or 422: the request or the file is not acceptable, and repeating it does not help. */
export class InvalidRequestError extends ApiError {
  override name = 'InvalidRequestError';
}

/** 401: a valid token is required. */
export class UnauthorizedError extends ApiError {
  override name = 'UnauthorizedError';
}

/** 403: the token does not allow the request. */
export class ForbiddenError extends ApiError {
  override name = 'ForbiddenError';
}

/** 404: the media object, rendition, region or path does not exist. */
export class NotFoundError extends ApiError {
  override name = 'NotFoundError';
}

/** 409: the current state does not allow the request, or the Idempotency-Key was used for another request. */
export class ConflictError extends ApiError {
  override name = 'ConflictError';
}

/** 429: too many requests. {@link ApiError.retryAfterMs} is the pause to keep. */
export class RateLimitError extends ApiError {
  override name = 'RateLimitError';
}

/** The awaited media object failed. */
export class MediaFailedError extends MdsError {
  override name = 'MediaFailedError';
  readonly media: MediaDetail;
  /** The failure; null if the service named none. */
  readonly failure: MediaFailure | null;

  constructor(media: MediaDetail) {
    const why = media.error ? `${media.error.code}: ${media.error.message}` : 'no reason given';
    super(`${media.id} failed: ${why}`);
    this.media = media;
    this.failure = media.error;
  }
}

/** An ingest from a URL produced no media object: the fetch failed, the file was not accepted, or the fetch was canceled. */
export class FetchFailedError extends MdsError {
  override name = 'FetchFailedError';
  readonly fetch: Fetch;
  /** The failure; null if the fetch was canceled. */
  readonly failure: MediaFailure | null;
  /** Problem code of the failure: `source_refused`, `unsupported_format`… Null if the fetch was canceled. */
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

/** Makes the {@link ApiError}, or its subclass, for an answer's status. */
export function apiError(details: ApiErrorDetails): ApiError {
  const Kind = BY_STATUS[details.status] ?? ApiError;
  return new Kind(details);
}
