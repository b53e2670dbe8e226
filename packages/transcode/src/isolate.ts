import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { IsolateError } from './isolate-errors.ts';
import {
  type ChildOptions,
  type ExitReason,
  IsolatedProcess,
  type ProcessEnd,
  type RunOptions,
  type Task,
} from './isolated-process.ts';

/** The end of a child. */
export interface ChildExit {
  pid: number | undefined;
  reason: ExitReason;
  signal: NodeJS.Signals | null;
  exitCode: number | null;
  /** The task that died with it. */
  task: string | null;
}

export interface IsolateOptions extends ChildOptions {
  /** Tasks at once, each in its own child. */
  concurrency: number;
  onChildExit?: ((exit: ChildExit) => void) | undefined;
}

export interface IsolateStats {
  /** Ids of the living children. */
  pids: number[];
  busy: number;
  queued: number;
  tasks: number;
  /** Children that died during a task, and were or will be replaced. */
  restarts: number;
}

/** Runs named tasks in child processes, so that a crash costs one task. */
export interface Isolate {
  /** Starts a child before the first task arrives. Does nothing if one is alive. */
  warmUp(): void;
  run(task: string, input: unknown, options: RunOptions): Promise<unknown>;
  readonly stats: IsolateStats;
  /** Kills the children and rejects the waiting tasks. */
  stop(): Promise<void>;
}

/** Creates an isolate. No process starts before the first task, and idle children do not keep the program running. */
export function createIsolate(options: IsolateOptions): Isolate {
  const children = new Set<IsolatedProcess>();
  const queue: Task[] = [];
  let preparing = 0;
  let tasks = 0;
  let restarts = 0;
  let stopped = false;

  const living = () => [...children].filter((child) => child.isUsable);

  /** Gives waiting tasks to idle children, and starts children for the others. */
  function dispatch(): void {
    for (const child of living()) {
      if (!child.isReady || child.isBusy) continue;
      const task = queue.shift();
      if (task === undefined) return;
      tasks++;
      child.start(task);
    }
    const starting = preparing + [...children].filter((child) => !child.isReady).length;
    const wanted = Math.min(queue.length - starting, options.concurrency - preparing - living().length);
    for (let i = 0; i < wanted; i++) startChild().catch((error: unknown) => failNext(asError(error)));
  }

  /** Rejects the task for which no process could be started. The other tasks get their own attempt. */
  function failNext({ message, cause }: Error): void {
    queue.shift()?.reject(new IsolateError('crashed', `No process could be started for it: ${message}.`, { cause }));
    dispatch();
  }

  async function startChild(): Promise<void> {
    preparing++;
    let home: string;
    try {
      home = await mkdtemp(join(tmpdir(), 'mds-isolate-'));
    } finally {
      preparing--;
    }
    if (stopped) return rm(home, { recursive: true, force: true });
    const child: IsolatedProcess = new IsolatedProcess(home, options, {
      onIdle: dispatch,
      onExit: (end) => handleExit(child, end),
    });
    children.add(child);
  }

  function handleExit(
    child: IsolatedProcess,
    { pid, reason, signal, exitCode, task, wasReady, stderr }: ProcessEnd,
  ): void {
    children.delete(child);
    if (task && reason !== 'aborted' && reason !== 'stopped') restarts++;
    if (!task && !wasReady) {
      // The cause is for the log only, because stderr may contain paths.
      const ending = `it ended by ${signal ?? `exit code ${exitCode}`} before it was ready`;
      failNext(new Error(ending, { cause: stderr }));
    }
    options.onChildExit?.({ pid, reason, signal, exitCode, task: task?.name ?? null });
    if (!stopped) dispatch();
  }

  return {
    warmUp() {
      // If this fails, the first task fails in the same way and reports it.
      if (!stopped && preparing === 0 && children.size === 0) startChild().catch(() => undefined);
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
        reject(new IsolateError('aborted', 'The task was aborted while it waited in the queue.'));
      };
      signal?.addEventListener('abort', leaveQueue, { once: true });
      dispatch();
      return promise.finally(() => signal?.removeEventListener('abort', leaveQueue));
    },

    get stats() {
      return {
        pids: living().flatMap((child) => child.pid ?? []),
        busy: living().filter((child) => child.isBusy).length,
        queued: queue.length,
        tasks,
        restarts,
      };
    },

    async stop() {
      stopped = true;
      for (const task of queue.splice(0)) task.reject(new IsolateError('stopped', 'The engine was stopped.'));
      await Promise.all([...children].map((child) => child.stop()));
    },
  };
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
