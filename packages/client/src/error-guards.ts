import {
  ApiError,
  ConflictError,
  ConnectionError,
  FetchFailedError,
  ForbiddenError,
  InvalidRequestError,
  MdsError,
  MediaFailedError,
  MissingTokenError,
  NotFoundError,
  RateLimitError,
  TimeoutError,
  UnauthorizedError,
} from './errors.ts';

/** Whether this package threw the error. */
export const isMdsError = (error: unknown): error is MdsError => error instanceof MdsError;

/** Whether the service, or a proxy, answered with an error. */
export const isApiError = (error: unknown): error is ApiError => error instanceof ApiError;

/** Whether the media object, rendition, region or path does not exist. */
export const isNotFoundError = (error: unknown): error is NotFoundError => error instanceof NotFoundError;

/** Whether the token is missing, is invalid, or does not allow the request. */
export const isAuthError = (error: unknown): error is MissingTokenError | UnauthorizedError | ForbiddenError =>
  error instanceof MissingTokenError || error instanceof UnauthorizedError || error instanceof ForbiddenError;

/** Whether the current state forbids the request (409). */
export const isConflictError = (error: unknown): error is ConflictError => error instanceof ConflictError;

/** Whether the request or the file is not acceptable (400, 413, 415, 422). */
export const isInvalidRequestError = (error: unknown): error is InvalidRequestError =>
  error instanceof InvalidRequestError;

/** Whether there were too many requests (429). */
export const isRateLimitError = (error: unknown): error is RateLimitError => error instanceof RateLimitError;

/** Whether no answer arrived. */
export const isConnectionError = (error: unknown): error is ConnectionError => error instanceof ConnectionError;

/** Whether something took too long. */
export const isTimeoutError = (error: unknown): error is TimeoutError => error instanceof TimeoutError;

/** Whether the awaited media object failed. */
export const isMediaFailedError = (error: unknown): error is MediaFailedError => error instanceof MediaFailedError;

/** Whether an ingest from a URL produced no media object. */
export const isFetchFailedError = (error: unknown): error is FetchFailedError => error instanceof FetchFailedError;
