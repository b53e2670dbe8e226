import { RenderError, type RenderErrorCode } from '@mds/transcode';
import { AppError } from '../base/app-error.ts';
import type { MediaFailureRecord } from '../db/media-repository.ts';

/** Why a media object could not be processed, apart from what the engine says. */
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

/** Whether another attempt could end differently, as the engine has it for its codes. */
export function isRetryable(code: RenderErrorCode): boolean {
  return new RenderError(code, '').retryable;
}

/** What to record of an error. One that nobody foresaw keeps its details to the log, and may be chance. */
export function failureOf(error: unknown): MediaFailureRecord {
  if (error instanceof ProcessingError || error instanceof RenderError) {
    return { code: error.code, message: error.message, retryable: error.retryable };
  }
  if (error instanceof AppError) return { code: error.code, message: error.message, retryable: true };
  const message = "Processing broke off unexpectedly. Look into the service's log for this media object, then retry.";
  return { code: 'internal_error', message, retryable: true };
}
