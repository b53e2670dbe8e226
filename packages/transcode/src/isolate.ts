import { type ChildProcess, fork } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { memoryCapSignal } from './isolate-watchdog.ts';

/** Why a task ended without an answer of its own. */
export type IsolateFailure = 'crashed' | 'timeout' | 'out_of_memory' | 'aborted' | 'stopped';

/** The child process died or was killed under the task. `message` says how. */
export class IsolateError extends Error {
  readonly failure: IsolateFailure;

  constructor(failure: IsolateFailure, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'IsolateError';
    this.failure = failure;
  }
}

/** An error that the task itself threw in the child: its name, code and message, without the class. */
export class TaskError extends Error {
  readonly taskErrorName: string;
  readonly code: string | undefined;

  constructor(error: { name: string; code?: string | undefined; message: string }) {
    super(error.message);
    this.name = 'TaskError';
    this.taskErrorName = error.name;
    this.code = error.code;
  }
}

/** Told when a child is gone. `reason` is `recycled` for one that had done its share. */
export interface ChildExit {
  pid: number | undefined;
  reason: IsolateFailure | 'recycled';
  signal: NodeJS.Signals | null;
  exitCode: number | null;
  /** The task that died with it. */
  task: string | null;
}

export interface IsolateOptions {
  /** Module that exports `tasks`, see `isolate-child.ts`. */
  tasksModule: URL;
  /** Tasks at once, each in a child of its own. */
  concurrency: number;
  /** A child is replaced after that many tasks, so that what a decoder leaks or breaks does not pile up. */
  tasksPerChild: number;
  /** Resident memory of a child, in bytes. */
  maxMemoryBytes: number;
  /** Niceness, 0 to 19: 10 leaves the processor to whoever answers requests. */
  niceness: number;
  onChildExit?: ((exit: ChildExit) => void) | undefined;
}

export interface RunOptions {
  /** Wall-clock time from the moment that a child has the task. */
  timeoutMs: number;
  signal?: AbortSignal | undefined;
  onProgress?: ((progress: unknown) => void) | undefined;
}

export interface IsolateStats {
  /** Ids of the children that are alive. */
  pids: number[];
  busy: number;
  queued: number;
  tasks: number;
  /** Children that died under a task, and were or will be replaced. */
  restarts: number;
}

/** Runs named tasks in child processes that may die alone. */
export interface Isolate {
  /** Starts a child ahead of the first task, which then need not wait for it. Does nothing where one is alive. */
  warmUp(): void;
  run(task: string, input: unknown, options: RunOptions): Promise<unknown>;
  readonly stats: IsolateStats;
  /** Kills the children and fails what waits. */
  stop(): Promise<void>;
}

/** From the child: it is up, it got on, or it has an answer. */
export type ChildMessage =
  | { type: 'ready' }
  | { type: 'progress'; progress: unknown }
  | { type: 'done'; result: unknown; tired: boolean }
  | { type: 'failed'; error: { name: string; code?: string | undefined; message: string }; tired: boolean };

/** Handed to the child when it starts, as one JSON argument. */
export interface ChildConfig {
  tasksModule: string;
  maxMemoryBytes: number;
  niceness: number;
}

/** A child that does not get as far as `ready` in this time never will. */
const startTimeoutMs = 30_000;

interface Task {
  name: string;
  input: unknown;
  options: RunOptions;
  resolve(result: unknown): void;
  reject(error: Error): void;
}

interface Child {
  process: ChildProcess;
  home: string;
  ready: boolean;
  done: number;
  task: Task | null;
  timer: NodeJS.Timeout | undefined;
  unlisten: (() => void) | undefined;
  /** Why we killed it, if we did. */
  killedFor: IsolateFailure | 'recycled' | null;
  /** Dead, and its folder removed. */
  gone: Promise<void>;
}

/** Makes an isolate. No process is started before the first task; idle children do not keep the program running. */
export function createIsolate(options: IsolateOptions): Isolate {
  const children = new Set<Child>();
  const queue: Task[] = [];
  let starting = 0;
  let tasks = 0;
  let restarts = 0;
  let stopped = false;

  function dispatch(): void {
    for (const child of children) {
      if (queue.length === 0) return;
      if (child.ready && child.task === null && child.killedFor === null) {
        const task = queue.shift();
        if (task) give(child, task);
      }
    }
    const coming = starting + [...children].filter((child) => !child.ready).length;
    const living = starting + [...children].filter((child) => child.killedFor === null).length;
    const wanted = Math.min(queue.length - coming, options.concurrency - living);
    for (let i = 0; i < wanted; i++) start().catch((error: unknown) => failNext(asError(error)));
  }

  /** The machine gives us no process: that is the fate of the task that asked for it, not of this program. */
  function failNext(error: Error): void {
    queue
      .shift()
      ?.reject(
        new IsolateError('crashed', `No process could be started for it: ${error.message}.`, { cause: error.cause }),
      );
    dispatch();
  }

  async function start(): Promise<void> {
    starting++;
    let home: string;
    try {
      home = await mkdtemp(join(tmpdir(), 'mds-isolate-'));
    } finally {
      starting--;
    }
    if (stopped) return rm(home, { recursive: true, force: true });
    const child = forkChild(options, home);
    const entry: Child = {
      process: child,
      home,
      ready: false,
      done: 0,
      task: null,
      timer: setTimeout(() => kill(entry, 'timeout'), startTimeoutMs),
      unlisten: undefined,
      killedFor: null,
      gone: Promise.resolve(),
    };
    // 'close' comes after 'exit', once the pipes are drained; a process that never started only has 'error'.
    const closed = new Promise<void>((resolve) => {
      child.once('close', () => resolve());
      child.once('error', () => child.pid === undefined && resolve());
    });
    children.add(entry);
    let stderr = '';
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      stderr = (stderr + text).slice(-2_000);
    });
    child.on('message', (message: ChildMessage) => receive(entry, message));
    child.on('error', () => undefined);
    entry.gone = closed.then(() => bury(entry, stderr));
  }

  function receive(child: Child, message: ChildMessage): void {
    if (message.type === 'progress') {
      child.task?.options.onProgress?.(message.progress);
      return;
    }
    if (message.type === 'ready') {
      child.ready = true;
      clearTimeout(child.timer);
    } else {
      const task = release(child);
      child.done++;
      if (message.type === 'done') task?.resolve(message.result);
      else task?.reject(new TaskError(message.error));
      if (message.tired || child.done >= options.tasksPerChild) kill(child, 'recycled');
    }
    if (child.killedFor === null) setReferenced(child, false);
    dispatch();
  }

  function give(child: Child, task: Task): void {
    const { timeoutMs, signal } = task.options;
    tasks++;
    child.task = task;
    setReferenced(child, true);
    child.timer = setTimeout(() => kill(child, 'timeout'), timeoutMs);
    const abort = () => kill(child, 'aborted');
    signal?.addEventListener('abort', abort, { once: true });
    child.unlisten = () => signal?.removeEventListener('abort', abort);
    // A failed send means that the child is dying: 'close' follows and speaks for it.
    child.process.send({ task: task.name, input: task.input }, () => undefined);
  }

  function release(child: Child): Task | null {
    const { task } = child;
    clearTimeout(child.timer);
    child.unlisten?.();
    child.task = null;
    child.unlisten = undefined;
    return task;
  }

  function kill(child: Child, why: IsolateFailure | 'recycled'): void {
    child.killedFor ??= why;
    killGroup(child.process);
  }

  async function bury(child: Child, stderr: string): Promise<void> {
    const { signalCode, exitCode, pid } = child.process;
    const task = release(child);
    children.delete(child);
    // Whatever the child had started belongs to its group and must not outlive it.
    killGroup(child.process);
    const reason = child.killedFor ?? (signalCode === memoryCapSignal ? 'out_of_memory' : 'crashed');
    if (task) {
      if (reason !== 'aborted' && reason !== 'stopped') restarts++;
      task.reject(deathOf(task, reason, signalCode, exitCode, stderr, options));
    } else if (!child.ready) {
      // The whole of stderr may hold paths; it is for the log, not for the message.
      failNext(
        new Error(`it ended by ${signalCode ?? `exit code ${exitCode}`} before it was ready`, { cause: stderr }),
      );
    }
    options.onChildExit?.({ pid, reason, signal: signalCode, exitCode, task: task?.name ?? null });
    if (!stopped) dispatch();
    await rm(child.home, { recursive: true, force: true }).catch(() => undefined);
  }

  return {
    warmUp() {
      // What fails here fails again, and is told, when there is a task.
      if (!stopped && starting === 0 && children.size === 0) start().catch(() => undefined);
    },
    run(name, input, runOptions) {
      const { promise, resolve, reject } = withResolvers<unknown>();
      const { signal } = runOptions;
      if (stopped) return Promise.reject(new IsolateError('stopped', 'The engine was stopped.'));
      if (signal?.aborted) return Promise.reject(new IsolateError('aborted', 'The task was aborted before it began.'));
      const task: Task = { name, input, options: runOptions, resolve, reject };
      queue.push(task);
      const leaveQueue = () => {
        const index = queue.indexOf(task);
        if (index < 0) return;
        queue.splice(index, 1);
        reject(new IsolateError('aborted', 'The task was aborted while it waited for its turn.'));
      };
      signal?.addEventListener('abort', leaveQueue, { once: true });
      dispatch();
      return promise.finally(() => signal?.removeEventListener('abort', leaveQueue));
    },
    get stats() {
      const living = [...children].filter((child) => child.killedFor === null);
      return {
        pids: living.flatMap((child) => child.process.pid ?? []),
        busy: living.filter((child) => child.task !== null).length,
        queued: queue.length,
        tasks,
        restarts,
      };
    },
    async stop() {
      stopped = true;
      for (const task of queue.splice(0)) task.reject(new IsolateError('stopped', 'The engine was stopped.'));
      const last = [...children];
      // An idle child keeps nobody waiting; who stops does wait, or the program would end before the rest of its stop.
      for (const child of last) setReferenced(child, true);
      for (const child of last) kill(child, 'stopped');
      await Promise.all(last.map((child) => child.gone));
    },
  };
}

/** The child runs the same kind of file as we are: TypeScript through tsx from source, JavaScript from dist. */
function forkChild(options: IsolateOptions, home: string): ChildProcess {
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
    // A group of its own: killing the group ends what the child started, and Ctrl-C is for us to pass on.
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  });
}

/** The child's working directory is empty and may be anywhere, so the loader is named by its full address. */
function tsxUrl(): string {
  return pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;
}

/**
 * Nothing of ours reaches the decoders but what a process needs to run: no tokens, no database address, no keys. The
 * environment is read here to be handed on, not to be heeded: no setting is taken from it.
 */
function childEnvironment(home: string): NodeJS.ProcessEnv {
  const kept = ['PATH', 'TMPDIR', 'LANG', 'LC_ALL', 'FONTCONFIG_FILE', 'FONTCONFIG_PATH', 'SystemRoot'];
  return {
    ...Object.fromEntries(kept.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : []))),
    HOME: home,
    VIPS_BLOCK_UNTRUSTED: '1',
    // Renditions are encoded side by side on libuv's threads; libvips waits there, so a few more than cores.
    UV_THREADPOOL_SIZE: String(Math.max(4, availableParallelism() + 2)),
    // Many arenas make glibc hold on to memory that large pictures once needed.
    MALLOC_ARENA_MAX: '4',
  };
}

function killGroup(child: ChildProcess): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // No such group any more: then there is nothing to kill.
    child.kill('SIGKILL');
  }
}

/** An idle child must not keep the program running; a busy one must, or its answer would never come. */
function setReferenced(child: Child, referenced: boolean): void {
  const handles = [
    child.process,
    child.process.channel,
    child.process.stderr as { ref?(): void; unref?(): void } | null,
  ];
  for (const handle of handles) {
    if (referenced) handle?.ref?.();
    else handle?.unref?.();
  }
}

function deathOf(
  task: Task,
  reason: IsolateFailure | 'recycled',
  signal: NodeJS.Signals | null,
  exitCode: number | null,
  stderr: string,
  { maxMemoryBytes }: IsolateOptions,
): IsolateError {
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
        `It needed more than ${Math.round(maxMemoryBytes / 2 ** 20)} MiB of memory.`,
      );
    default: {
      const how = signal ? `was ended by ${signal}` : `exited with code ${exitCode}`;
      return new IsolateError('crashed', `The process that decoded it ${how}.`, { cause: stderr });
    }
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

/** `Promise.withResolvers`, which Node 20 does not have. */
function withResolvers<T>() {
  let resolve: (value: T) => void = () => undefined;
  let reject: (error: Error) => void = () => undefined;
  const promise = new Promise<T>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}
