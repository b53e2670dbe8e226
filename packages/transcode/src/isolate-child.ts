import { rmSync } from 'node:fs';
import type { ChildConfig, ChildMessage } from './isolate.ts';
import { giveWay } from './isolate-niceness.ts';
import { startWatchdog } from './isolate-watchdog.ts';

/** What a tasks module exports as `tasks`: each takes and gives JSON, and may report how it gets on. */
export type Tasks = Record<string, (input: never, report: (progress: unknown) => void) => Promise<unknown>>;

/** More than this left over after a task: better a fresh process than a slow leak into the cap. */
const tiredShareOfCap = 0.5;

const config = JSON.parse(process.argv[2] ?? '{}') as ChildConfig;

// The parent is gone, perhaps by kill -9: nobody waits for an answer any more, ours or that of a program that we run. We are
// the leader of a process group of our own (`detached`).
process.on('disconnect', () => {
  rmSync(process.cwd(), { recursive: true, force: true });
  process.kill(-process.pid, 'SIGKILL');
});

giveWay(config.niceness);
startWatchdog(config.maxMemoryBytes);

const { tasks } = (await import(config.tasksModule)) as { tasks: Tasks };
process.on('message', ({ task, input }: { task: string; input: unknown }) => void answer(task, input));
send({ type: 'ready' });

async function answer(name: string, input: unknown): Promise<void> {
  try {
    const task = tasks[name];
    if (!task) throw new Error(`There is no task "${name}".`);
    const result = await task(input as never, (progress) => send({ type: 'progress', progress }));
    send({ type: 'done', result, tired: isTired() });
  } catch (error) {
    send({ type: 'failed', error: describe(error), tired: isTired() });
  }
}

function send(message: ChildMessage): void {
  process.send?.(message);
}

function isTired(): boolean {
  return process.memoryUsage.rss() > config.maxMemoryBytes * tiredShareOfCap;
}

function describe(error: unknown): { name: string; code?: string; message: string } {
  if (!(error instanceof Error)) return { name: 'Error', message: String(error) };
  const code = 'code' in error && typeof error.code === 'string' ? { code: error.code } : {};
  return { name: error.name, message: error.message, ...code };
}
