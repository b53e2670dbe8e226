import { RenderError, type RenderErrorCode } from '@mds/transcode';
import { AppError } from '../base/app-error.ts';
import type { MediaFailureRecord } from '../db/media-repository.ts';

/** Why a media object could not be processed: the engine's codes, and those of the store. */
export type ProcessingErrorCode = RenderErrorCode | 'object_corrupt' | 'object_missing';

/** A failure with a stable code and a sentence for the operator. */
export class ProcessingError extends Error {
  readonly code: ProcessingErrorCode;
  readonly retryable: boolean;

  constructor(code: ProcessingErrorCode, message: string, options: ErrorOptions & { retryable: boolean }) {
    super(message, options);
    this.name = 'ProcessingError';
    this.code = code;
    this.retryable = options.retryable;
  }
}

/** Whether another attempt could succeed, by the engine's rule for its codes. */
export function isRetryable(code: RenderErrorCode): boolean {
  return new RenderError(code, '').retryable;
}

/** The failure to record for an error. The details of an unforeseen error stay in the log; another attempt may succeed. */
export function failureOf(error: unknown): MediaFailureRecord {
  if (error instanceof ProcessingError || error instanceof RenderError) {
    return { code: error.code, message: error.message, retryable: error.retryable };
  }
  if (error instanceof AppError) return { code: error.code, message: error.message, retryable: true };
  const message = "Processing broke off unexpectedly. Look into the service's log for this media object, then retry.";
  return { code: 'internal_error', message, retryable: true };
}
