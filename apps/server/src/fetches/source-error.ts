import type { ProblemCode } from '@mds/contract';
import { AppError } from '../base/app-error.ts';

/** Codes of failures of sources. */
export type SourceErrorCode = Extract<
  ProblemCode,
  'source_not_allowed' | 'source_unreachable' | 'source_refused' | 'source_timeout' | 'source_incomplete'
>;

/** A source that did not give its file. The message names no address, no query and no credentials. */
export class SourceError extends AppError {
  /** Whether another attempt may succeed. */
  readonly retryable: boolean;
  /** The pause that the source asks for, in milliseconds; null if it asks for none. */
  readonly retryAfterMs: number | null;

  constructor(
    code: SourceErrorCode,
    detail: string,
    options: { retryable?: boolean; retryAfterMs?: number | null; cause?: unknown } = {},
  ) {
    super(code, detail, { cause: options.cause });
    this.name = 'SourceError';
    this.retryable = options.retryable ?? false;
    this.retryAfterMs = options.retryAfterMs ?? null;
  }
}
