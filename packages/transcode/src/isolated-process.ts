import { type ChildProcess, fork } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { IsolateError, type IsolateFailure, TaskError } from './isolate-errors.ts';
import { memoryCapSignal } from './isolate-watchdog.ts';

/** Sent by the child: it is ready, reports progress, or has an answer. `recycle`: it should be replaced. */
export type ChildMessage =
  | { type: 'ready' }
  | { type: 'progress'; progress: unknown }
  | { type: 'done'; result: unknown; recycle: boolean }
  | { type: 'failed'; error: { name: string; code?: string | undefined; message: string }; recycle: boolean };

/** Passed to the child at its start, as one JSON argument. */
export interface ChildConfig {
  tasksModule: string;
  maxMemoryBytes: number;
  niceness: number;
}

export interface ChildOptions {
  /** Module that exports `tasks`, see `isolate-child.ts`. */
  tasksModule: URL;
  /** A child is replaced after this many tasks, so that leaks and damage of decoders do not accumulate. */
  tasksPerChild: number;
  /** Resident memory of a child, in bytes. */
  maxMemoryBytes: number;
  /** Niceness, 0 to 19: with 10, processes that answer requests come first. */
  niceness: number;
}

export interface RunOptions {
  /** Wall-clock time from the moment when a child has the task. */
  timeoutMs: number;
  signal?: AbortSignal | undefined;
  onProgress?: ((progress: unknown) => void) | undefined;
}

export interface Task {
  name: string;
  input: unknown;
  options: RunOptions;
  resolve(result: unknown): void;
  reject(error: Error): void;
}

/** Why a child ended; `recycled` if it had done its share of tasks. */
export type ExitReason = IsolateFailure | 'recycled';

/** The end of a child. `task` died with it and has been rejected. */
export interface ProcessEnd {
  pid: number | undefined;
  reason: ExitReason;
  signal: NodeJS.Signals | null;
  exitCode: number | null;
  task: Task | null;
  wasReady: boolean;
  stderr: string;
}

/** A child that is not `ready` after this time never will be. */
const startTimeoutMs = 30_000;
const stderrTailLength = 2_000;

/** The parent's side of one child process, which runs one task at a time in an empty folder. */
export class IsolatedProcess {
  /** Resolves when the process is dead and its folder is removed. */
  readonly gone: Promise<void>;
  readonly #process: ChildProcess;
  readonly #options: ChildOptions;
  readonly #onIdle: () => void;
  #ready = false;
  #finishedTasks = 0;
  #task: Task | null = null;
  #timer: NodeJS.Timeout | undefined;
  #removeAbortListener: (() => void) | undefined;
  #killedFor: ExitReason | null = null;
  #stderr = '';

  /** `onIdle` is called after the start and after each task, `onExit` once, before the folder `home` is removed. */
  constructor(home: string, options: ChildOptions, events: { onIdle(): void; onExit(end: ProcessEnd): void }) {
    const child = forkChild(options, home);
    this.#process = child;
    this.#options = options;
    this.#onIdle = events.onIdle;
    this.#timer = setTimeout(() => this.kill('timeout'), startTimeoutMs);
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-stderrTailLength);
    });
    child.on('message', (message: ChildMessage) => this.#receive(message));
    child.on('error', () => undefined);
    // 'close' comes after 'exit', once the pipes are drained. A process that never started emits only 'error'.
    const closed = new Promise<void>((resolve) => {
      child.once('close', () => resolve());
      child.once('error', () => child.pid === undefined && resolve());
    });
    this.gone = closed.then(async () => {
      events.onExit(this.#end());
      await rm(home, { recursive: true, force: true }).catch(() => undefined);
    });
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  get isReady(): boolean {
    return this.#ready;
  }

  get isBusy(): boolean {
    return this.#task !== null;
  }

  /** False as soon as it is being killed. */
  get isUsable(): boolean {
    return this.#killedFor === null;
  }

  /** Starts a task. The process must be ready, usable and not busy. */
  start(task: Task): void {
    const { timeoutMs, signal } = task.options;
    this.#task = task;
    this.#keepProgramRunning(true);
    this.#timer = setTimeout(() => this.kill('timeout'), timeoutMs);
    const abort = () => this.kill('aborted');
    signal?.addEventListener('abort', abort, { once: true });
    this.#removeAbortListener = () => signal?.removeEventListener('abort', abort);
    // If the send fails, the child is dying, and 'close' follows.
    this.#process.send({ task: task.name, input: task.input }, () => undefined);
  }

  kill(reason: ExitReason): void {
    this.#killedFor ??= reason;
    killGroup(this.#process);
  }

  /** Kills the process and waits for its end. The program keeps running until then, so that the rest of its stop follows. */
  stop(): Promise<void> {
    this.#keepProgramRunning(true);
    this.kill('stopped');
    return this.gone;
  }

  #receive(message: ChildMessage): void {
    if (message.type === 'progress') {
      this.#task?.options.onProgress?.(message.progress);
      return;
    }
    if (message.type === 'ready') {
      this.#ready = true;
      clearTimeout(this.#timer);
    } else {
      const task = this.#releaseTask();
      this.#finishedTasks++;
      if (message.type === 'done') task?.resolve(message.result);
      else task?.reject(new TaskError(message.error));
      if (message.recycle || this.#finishedTasks >= this.#options.tasksPerChild) this.kill('recycled');
    }
    if (this.isUsable) this.#keepProgramRunning(false);
    this.#onIdle();
  }

  #releaseTask(): Task | null {
    const task = this.#task;
    clearTimeout(this.#timer);
    this.#removeAbortListener?.();
    this.#task = null;
    this.#removeAbortListener = undefined;
    return task;
  }

  #end(): ProcessEnd {
    const { signalCode: signal, exitCode, pid } = this.#process;
    const task = this.#releaseTask();
    // Programs that the child started belong to its group and must not outlive it.
    killGroup(this.#process);
    const reason = this.#killedFor ?? (signal === memoryCapSignal ? 'out_of_memory' : 'crashed');
    const end = { pid, reason, signal, exitCode, task, wasReady: this.#ready, stderr: this.#stderr };
    task?.reject(errorOf(end, task, this.#options));
    return end;
  }

  /** An idle child must not keep the program running. A busy one must, or its answer would never arrive. */
  #keepProgramRunning(keep: boolean): void {
    const { channel, stderr } = this.#process;
    for (const handle of [this.#process, channel, stderr as { ref?(): void; unref?(): void } | null]) {
      if (keep) handle?.ref?.();
      else handle?.unref?.();
    }
  }
}

/** The child runs the same kind of file as this one: TypeScript through tsx from source, JavaScript from dist. */
function forkChild(options: ChildOptions, home: string): ChildProcess {
  const fromSource = import.meta.url.endsWith('.ts');
  const entry = fileURLToPath(new URL(fromSource ? './isolate-child.ts' : './isolate-child.js', import.meta.url));
  const config: ChildConfig = {
    tasksModule: options.tasksModule.href,
    maxMemoryBytes: options.maxMemoryBytes,
    niceness: options.niceness,
  };
  return fork(entry, [JSON.stringify(config)], {
    cwd: home,
    env: childEnvironment(home),
    execArgv: fromSource ? ['--conditions=@mds/source', '--import', tsxUrl()] : [],
    // A process group of its own: killing the group also ends the child's programs, and Ctrl-C reaches only the parent.
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  });
}

/** The full address of the loader, because the child's working directory is empty and may be anywhere. */
function tsxUrl(): string {
  return pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;
}

/**
 * Passes only what a process needs to run to the decoders: no tokens, no database address, no keys. The environment is only
 * passed on here; no setting is read from it.
 */
function childEnvironment(home: string): NodeJS.ProcessEnv {
  const passed = ['PATH', 'TMPDIR', 'LANG', 'LC_ALL', 'FONTCONFIG_FILE', 'FONTCONFIG_PATH', 'SystemRoot'];
  return {
    ...Object.fromEntries(passed.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : []))),
    HOME: home,
    VIPS_BLOCK_UNTRUSTED: '1',
    // Renditions are encoded side by side on libuv's threads, where libvips also waits, so there are a few more than cores.
    UV_THREADPOOL_SIZE: String(Math.max(4, availableParallelism() + 2)),
    // With many arenas, glibc would hold on to memory that only large images needed.
    MALLOC_ARENA_MAX: '4',
  };
}

function killGroup(child: ChildProcess): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // The group no longer exists.
    child.kill('SIGKILL');
  }
}

function errorOf({ reason, signal, exitCode, stderr }: ProcessEnd, task: Task, options: ChildOptions): IsolateError {
  switch (reason) {
    case 'timeout':
      return new IsolateError('timeout', `It took longer than ${task.options.timeoutMs / 1000} s and was killed.`);
    case 'aborted':
      return new IsolateError('aborted', 'The task was aborted.');
    case 'stopped':
      return new IsolateError('stopped', 'The engine was stopped.');
    case 'out_of_memory':
      return new IsolateError(
        'out_of_memory',
        `It needed more than ${Math.round(options.maxMemoryBytes / 2 ** 20)} MiB of memory.`,
      );
    default: {
      const outcome = signal ? `was ended by ${signal}` : `exited with code ${exitCode}`;
      return new IsolateError('crashed', `The process that decoded it ${outcome}.`, { cause: stderr });
    }
  }
}
