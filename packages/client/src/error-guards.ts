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

/** Whether this package threw it. */
export const isMdsError = (error: unknown): error is MdsError => error instanceof MdsError;

/** Whether an answer came, and was an error. */
export const isApiError = (error: unknown): error is ApiError => error instanceof ApiError;

/** Whether there is no such media object, rendition, region or path. */
export const isNotFoundError = (error: unknown): error is NotFoundError => error instanceof NotFoundError;

/** Whether there is no token, a token that is not valid, or one that does not allow this. */
export const isAuthError = (error: unknown): error is MissingTokenError | UnauthorizedError | ForbiddenError =>
  error instanceof MissingTokenError || error instanceof UnauthorizedError || error instanceof ForbiddenError;

/** Whether the state of things forbids it (409). */
export const isConflictError = (error: unknown): error is ConflictError => error instanceof ConflictError;

/** Whether what was sent is not acceptable (400, 413, 415, 422). */
export const isInvalidRequestError = (error: unknown): error is InvalidRequestError =>
  error instanceof InvalidRequestError;

/** Whether there were too many requests (429). */
export const isRateLimitError = (error: unknown): error is RateLimitError => error instanceof RateLimitError;

/** Whether no answer came. */
export const isConnectionError = (error: unknown): error is ConnectionError => error instanceof ConnectionError;

/** Whether something took too long. */
export const isTimeoutError = (error: unknown): error is TimeoutError => error instanceof TimeoutError;

/** Whether a media object that was waited for has failed. */
export const isMediaFailedError = (error: unknown): error is MediaFailedError => error instanceof MediaFailedError;

/** Whether a URL that was to be ingested did not become a media object. */
export const isFetchFailedError = (error: unknown): error is FetchFailedError => error instanceof FetchFailedError;
