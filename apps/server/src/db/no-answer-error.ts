import { AppError } from '../base/app-error.ts';

const DETAIL = 'The database does not answer at the moment. Ask again in a few seconds.';
const OPTIONS = { headers: { 'Retry-After': '5' } };

/** The database cannot do now what it will be able to do in a moment; nothing was written. */
export function databaseUnavailable(cause: unknown): AppError {
  return new AppError('unavailable', DETAIL, { ...OPTIONS, cause });
}

/**
 * The database did not answer what it was asked. Whether a write stands is not known: it may have been committed, or be committed yet.
 * What would be lost for good where it was must not be taken back.
 */
export class NoAnswerError extends AppError {
  constructor(cause: unknown) {
    super('unavailable', DETAIL, { ...OPTIONS, cause });
    this.name = 'NoAnswerError';
  }
}
