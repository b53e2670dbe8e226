/** The exit codes. Scripts rely on them. */
export const EXIT = { done: 0, failed: 1, usage: 2, notFound: 3, notAuthorised: 4 } as const;

/** An error that the user can act on. */
export class CliError extends Error {
  override name = 'CliError';
  readonly exitCode: number;
  /** Advice, one line each. */
  readonly hints: readonly string[];

  constructor(message: string, options: { exitCode?: number; hints?: readonly string[]; cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.exitCode = options.exitCode ?? EXIT.failed;
    this.hints = options.hints ?? [];
  }
}

/** An error that was already printed for people. It is printed again with `--json` or `--quiet` only. */
export class ReportedError extends CliError {
  override name = 'ReportedError';
}

/** An early end of the program: its cause, and hints about unfinished work. */
export class StoppedError extends Error {
  override name = 'StoppedError';
  readonly hints: readonly string[];

  constructor(cause: unknown, hints: readonly string[]) {
    super('Stopped.', { cause });
    this.hints = hints;
  }
}
