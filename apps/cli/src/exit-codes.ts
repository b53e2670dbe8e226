/** How the program ends. Part of its interface: scripts branch on these. */
export const EXIT = { done: 0, failed: 1, usage: 2, notFound: 3, notAuthorised: 4 } as const;

/** An error that the user can do something about, in words meant for them. */
export class CliError extends Error {
  override name = 'CliError';
  readonly exitCode: number;
  /** What to do about it, one line each. */
  readonly hints: readonly string[];

  constructor(message: string, options: { exitCode?: number; hints?: readonly string[]; cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.exitCode = options.exitCode ?? EXIT.failed;
    this.hints = options.hints ?? [];
  }
}

/** An error of which people have been told all there is to tell: with `--json` or `--quiet` alone it is said once more. */
export class ReportedError extends CliError {
  override name = 'ReportedError';
}

/** What ended the program early, its cause, and what is to be known of what was under way, one line each. */
export class StoppedError extends Error {
  override name = 'StoppedError';
  readonly hints: readonly string[];

  constructor(cause: unknown, hints: readonly string[]) {
    super('Stopped.', { cause });
    this.hints = hints;
  }
}
