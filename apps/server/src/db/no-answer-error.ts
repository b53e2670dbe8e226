import { AppError } from '../base/app-error.ts';

const DETAIL = 'The database does not answer at the moment. Ask again in a few seconds.';
const OPTIONS = { headers: { 'Retry-After': '5' } };

/** The database cannot do this now, but will in a moment. Nothing was written. */
export function databaseUnavailable(cause: unknown): AppError {
  return new AppError('unavailable', DETAIL, { ...OPTIONS, cause });
}

/**
 * The database did not answer. The outcome of a write is unknown: it may be committed, or be committed later. So the
 * caller must not revert anything that a committed write needs.
 */
export class NoAnswerError extends AppError {
  constructor(cause: unknown) {
    super('unavailable', DETAIL, { ...OPTIONS, cause });
    this.name = 'NoAnswerError';
  }
}
