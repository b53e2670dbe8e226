import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from './free-port.ts';

const TRIES = 3;
const PAUSE_MS = 20;

/**
 * Waits until a server that was just spawned answers; one that does not is killed.
 * @param options.name what it is called where it does not start
 * @param options.answers asked again and again; what it fails with is no answer
 * @returns when the child is gone
 * @throws with what it said, on whichever of its outputs is a pipe
 */
export async function untilItAnswers(
  child: ChildProcess,
  { name, answers, withinMs }: { name: string; answers: () => Promise<boolean>; withinMs: number },
): Promise<{ exited: Promise<void> }> {
  let said = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-4_000);
    });
  }
  let gone = false;
  const exited = once(child, 'exit').then(() => {
    gone = true;
  });
  const deadline = performance.now() + withinMs;
  while (!(await answers().catch(() => false))) {
    if (gone || performance.now() > deadline) {
      child.kill('SIGKILL');
      await exited;
      throw new Error(`${name} does not start: ${said}`);
    }
    await sleep(PAUSE_MS);
  }
  return { exited };
}

/**
 * Starts something on a free port, and once more on another one where that fails: another program may take a port between being found free
 * and being listened on.
 * @throws what the last try failed with
 */
export async function onFreePort<T>(start: (port: number) => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await start(await freePort());
    } catch (error) {
      if (tries === TRIES) throw error;
    }
  }
}
