import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { nodeArguments } from '../../server/test/support/programs-under-test.ts';
import { Interruption, type OutputStream } from '../src/io.ts';
import { run } from '../src/program.ts';
import { TOKEN } from './scripted-service.ts';

/** The result of a run of the program. */
export interface Ran {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** How to run the program. */
export interface RunOptions {
  env?: Record<string, string>;
  cwd?: string;
  stdin?: string | Buffer;
}

/** The program while it runs in its own process. */
export interface Running {
  done: Promise<Ran>;
  stdout(): string;
  stderr(): string;
  kill(signal: NodeJS.Signals): void;
  /** Closes the reading end of standard output. */
  closeStdout(): void;
}

/** Starts the real program in its own process. */
export function start(args: readonly string[], { env = {}, cwd = tmpdir(), stdin }: RunOptions = {}): Running {
  const child = spawn(process.execPath, [...nodeArguments('mds'), ...args], {
    cwd,
    env: { PATH: process.env['PATH'] ?? '', ...env },
  });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  if (stdin !== undefined) child.stdin.end(stdin);
  return {
    stdout: () => stdout,
    stderr: () => stderr,
    done: new Promise((resolve, reject) => {
      child.on('error', reject);
      child.on('close', (code) => resolve({ code, stdout, stderr }));
    }),
    kill: (signal) => void child.kill(signal),
    closeStdout: () => void child.stdout.destroy(),
  };
}

/** Runs the real program in its own process, to its end. */
export function mds(args: readonly string[], options?: RunOptions): Promise<Ran> {
  return start(args, { stdin: '', ...options }).done;
}

/** How to run the program in this process. */
export interface InProcessOptions extends RunOptions {
  /** Keeps standard input open without data. */
  silentInput?: boolean;
  /** Width of the terminal that standard input, output and error are; undefined: pipes. */
  terminal?: number;
  /** Interrupts the program when it is aborted. */
  interrupt?: AbortSignal;
}

/** Runs the program in this process and captures its output, for tests that do not need a process. */
export async function mdsHere(args: readonly string[], options: InProcessOptions = {}): Promise<Ran> {
  const { env = {}, cwd = tmpdir(), stdin = '', silentInput, terminal, interrupt } = options;
  const input = new PassThrough();
  if (!silentInput) input.end(stdin);
  const caught = { stdout: '', stderr: '' };
  const output = (name: keyof typeof caught): OutputStream => {
    const stream: OutputStream = new PassThrough().setEncoding('utf8').on('data', (text: string) => {
      caught[name] += text;
    });
    if (terminal !== undefined) Object.assign(stream, { isTTY: true, columns: terminal, rows: 24 });
    return stream;
  };
  const stopped = new AbortController();
  interrupt?.addEventListener('abort', () => stopped.abort(new Interruption('SIGINT')));
  const code = await run(args, {
    stdout: output('stdout'),
    stderr: output('stderr'),
    stdin: Object.assign(input, terminal === undefined ? {} : { isTTY: true }),
    env,
    cwd,
    signal: stopped.signal,
  });
  await new Promise((resolve) => setImmediate(resolve));
  return { code, ...caught };
}

/** {@link mdsHere} as the operator of a scripted service. @param terminal its width; undefined: a pipe */
export function mdsAt({ url }: { url: string }, args: readonly string[], terminal?: number): Promise<Ran> {
  const env = { MDS_URL: url, MDS_TOKEN: TOKEN, NO_COLOR: '1' };
  return mdsHere(args, { env, ...(terminal && { terminal }) });
}

/** A folder that is removed when it is disposed of. */
export async function temporaryFolder(): Promise<AsyncDisposable & { path: string }> {
  const path = await mkdtemp(join(tmpdir(), 'mds-cli-'));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

/** A colour, or the end of one: ESC [ … m (ECMA-48, 8.3.117). */
const COLOUR = new RegExp(`${String.fromCharCode(0x1b)}\\[[0-9;]*m`, 'g');

/** Removes colours from a text. Keeps other sequences, which separate the frames of a terminal; `stripVTControlCharacters` removes all. */
export function plain(text: string): string {
  return text.replace(COLOUR, '');
}
