import type { Readable, Writable } from 'node:stream';

/** A stream that may be a terminal. `columns` and `rows` are in characters, and change with its window. */
export type OutputStream = Writable & { isTTY?: boolean; columns?: number; rows?: number };

/** The parts of the process that the program uses. */
export interface Io {
  stdout: OutputStream;
  stderr: OutputStream;
  stdin: Readable & { isTTY?: boolean };
  env: Readonly<Record<string, string | undefined>>;
  /** Working directory; relative paths are resolved against it. */
  cwd: string;
  /** Aborted with an {@link Interruption} on Ctrl-C. */
  signal: AbortSignal;
}

/** The reason for an abort by a signal. */
export class Interruption extends Error {
  override name = 'Interruption';
  readonly exitCode: number;

  constructor(signal: 'SIGINT' | 'SIGTERM') {
    super('Interrupted.');
    // Shells report a process that a signal ended with 128 plus the signal's number.
    this.exitCode = signal === 'SIGINT' ? 130 : 143;
  }
}
