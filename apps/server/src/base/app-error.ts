import { PROBLEMS, type ProblemCode, type ProblemIssue } from '@mds/contract';

/** Optional parts of an {@link AppError}. */
export interface AppErrorOptions {
  cause?: unknown;
  /** The bad input, field by field. */
  issues?: ProblemIssue[];
  /** Headers that belong to the answer: `Allow`, `Retry-After`, `WWW-Authenticate`, `Content-Range`. */
  headers?: Record<string, string>;
}

/**
 * An error for a caller. `code` decides status and title (contract, `PROBLEMS`); `message` is the
 * problem's `detail`: the reason and the fix, free of paths, SQL and secrets.
 */
export class AppError extends Error {
  readonly code: ProblemCode;
  readonly status: number;
  readonly issues: ProblemIssue[] | undefined;
  readonly headers: Record<string, string>;

  constructor(code: ProblemCode, detail: string, options: AppErrorOptions = {}) {
    super(detail, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'AppError';
    this.code = code;
    this.status = PROBLEMS[code].status;
    this.issues = options.issues;
    this.headers = options.headers ?? {};
  }
}
