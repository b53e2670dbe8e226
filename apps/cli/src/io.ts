import type { Readable, Writable } from 'node:stream';

/** A stream that may be a terminal. `columns` and `rows` are in characters, and change as its window does. */
export type OutputStream = Writable & { isTTY?: boolean; columns?: number; rows?: number };

/** All that the program has to do with the process it runs in. */
export interface Io {
  stdout: OutputStream;
  stderr: OutputStream;
  stdin: Readable & { isTTY?: boolean };
  env: Readonly<Record<string, string | undefined>>;
  /** Working directory; relative paths are seen from here. */
  cwd: string;
  /** Aborted with an {@link Interruption} on Ctrl-C. */
  signal: AbortSignal;
}

/** Why the program was asked to stop. */
export class Interruption extends Error {
  override name = 'Interruption';
  readonly exitCode: number;

  constructor(signal: 'SIGINT' | 'SIGTERM') {
    super('Interrupted.');
    // What a shell reports of a process that the signal ended: 128 and the signal's number.
    this.exitCode = signal === 'SIGINT' ? 130 : 143;
  }
}
