import { AppError } from '../base/app-error.ts';
import { OriginUnavailableError } from './object-origin.ts';
import { OPEN_TO_ALL, type Representation } from './representation.ts';
import type { ObjectDamagedError } from './verified-body.ts';

/** 406. A format that the client excludes would only fail later, and further from the cause (RFC 9110, 15.5.7). */
export function notAcceptable(representations: readonly Representation[]): AppError {
  const types = representations.map(({ contentType }) => contentType).join(', ');
  return new AppError('not_acceptable', `Accept allows none of the formats that there are: ${types}.`, {
    headers: { ...OPEN_TO_ALL, Vary: 'Accept' },
  });
}

/** 405: the request is not a read. */
export function methodNotAllowed(): AppError {
  return new AppError(
    'method_not_allowed',
    'Renditions can be read with GET and HEAD. Changes go to the control API.',
    {
      headers: { ...OPEN_TO_ALL, Allow: 'GET, HEAD' },
    },
  );
}

/** 412, with the current entity-tag (RFC 9110, 13.1.1 and 13.1.4). */
export function preconditionFailed({ etag }: Representation): AppError {
  return new AppError(
    'precondition_failed',
    'The rendition is not, or no longer, the one that If-Match or If-Unmodified-Since names. GET it to see what it is now.',
    { headers: { ...OPEN_TO_ALL, ETag: etag } },
  );
}

/** 416, with the size of the representation (RFC 9110, 15.5.17). */
export function rangeNotSatisfiable({ bytes, etag }: Representation): AppError {
  return new AppError('range_not_satisfiable', `The representation has ${bytes} bytes; ask for a range within them.`, {
    headers: { ...OPEN_TO_ALL, 'Content-Range': `bytes */${bytes}`, ETag: etag },
  });
}

/** 500: the stored object differs from its record, even at a second look. */
export function objectCorrupt(cause: ObjectDamagedError): AppError {
  return new AppError(
    'object_corrupt',
    'The stored object is missing or damaged, so it is not delivered. The operator can have it made again: mds doctor --repair.',
    { cause, headers: OPEN_TO_ALL },
  );
}

function unavailable(what: string, cause: unknown): AppError {
  return new AppError('unavailable', `${what} Ask again in a few seconds.`, {
    cause,
    headers: { ...OPEN_TO_ALL, 'Retry-After': '5' },
  });
}

/** Throws the problem for a path that could not be resolved. */
export function resolverFailed(error: unknown): never {
  if (error instanceof AppError) throw error;
  if (error instanceof OriginUnavailableError) throw unavailable('The origin does not answer.', error);
  throw unavailable('The database does not answer.', error);
}

/** The problem for an object whose bytes could not be read. */
export function originFailed(error: unknown): AppError {
  if (error instanceof AppError) return error;
  if (error instanceof OriginUnavailableError) return unavailable('The origin does not send the object.', error);
  return unavailable('The object storage does not answer.', error);
}
