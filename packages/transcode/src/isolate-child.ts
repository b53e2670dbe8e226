import { readdirSync, rmSync } from 'node:fs';
import { constants, getPriority, setPriority } from 'node:os';
import { startWatchdog } from './isolate-watchdog.ts';
import type { ChildConfig, ChildMessage } from './isolated-process.ts';

/** The `tasks` of a tasks module. Each takes and returns JSON, and may report its progress. */
export type Tasks = Record<string, (input: never, report: (progress: unknown) => void) => Promise<unknown>>;

/** A child with more memory than this after a task is replaced, before a slow leak reaches the cap. */
const recycleShareOfCap = 0.5;

const config = JSON.parse(process.argv[2] ?? '{}') as ChildConfig;

// The parent is gone, perhaps by kill -9, so nobody needs our answer or our programs any more. This process leads its own
// process group (`detached`).
process.on('disconnect', () => {
  rmSync(process.cwd(), { recursive: true, force: true });
  process.kill(-process.pid, 'SIGKILL');
});

lowerPriority(config.niceness);
startWatchdog(config.maxMemoryBytes);

const { tasks } = (await import(config.tasksModule)) as { tasks: Tasks };
process.on('message', ({ task, input }: { task: string; input: unknown }) => void answer(task, input));
send({ type: 'ready' });

async function answer(name: string, input: unknown): Promise<void> {
  try {
    const task = tasks[name];
    if (!task) throw new Error(`There is no task "${name}".`);
    const result = await task(input as never, (progress) => send({ type: 'progress', progress }));
    send({ type: 'done', result, recycle: shouldRecycle() });
  } catch (error) {
    send({ type: 'failed', error: describe(error), recycle: shouldRecycle() });
  }
}

function send(message: ChildMessage): void {
  process.send?.(message);
}

function shouldRecycle(): boolean {
  return process.memoryUsage.rss() > config.maxMemoryBytes * recycleShareOfCap;
}

function describe(error: unknown): { name: string; code?: string; message: string } {
  if (!(error instanceof Error)) return { name: 'Error', message: String(error) };
  const code = 'code' in error && typeof error.code === 'string' ? { code: error.code } : {};
  return { name: error.name, message: error.message, ...code };
}

/**
 * Sets the niceness of all threads of this process. Linux has one for each thread (setpriority(2), "C library/kernel
 * differences"), and some of the threads that Node has started by now will decode and encode. Later threads and programs
 * inherit it. A higher niceness from the start stays, because only root may lower it.
 */
function lowerPriority(niceness: number): void {
  const threads = process.platform === 'linux' ? readdirSync('/proc/self/task').map(Number) : [process.pid];
  for (const thread of threads) {
    try {
      if (getPriority(thread) < niceness) setPriority(thread, niceness);
    } catch (error) {
      const ended = error instanceof Error && 'errno' in error && error.errno === -constants.errno.ESRCH;
      if (!ended) throw error;
    }
  }
}
