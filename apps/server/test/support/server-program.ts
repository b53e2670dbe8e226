import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from './free-port.ts';

const TRIES = 3;
const PAUSE_MS = 20;

/**
 * Waits until a server that was just spawned answers, or kills it.
 * @param options.name is used in the error
 * @param options.answers is called repeatedly; a rejection counts as no answer
 * @returns `exited`, which resolves when the child has ended
 * @throws with the output of the child, as far as it is a pipe
 */
export async function untilItAnswers(
  child: ChildProcess,
  { name, answers, withinMs }: { name: string; answers: () => Promise<boolean>; withinMs: number },
): Promise<{ exited: Promise<void> }> {
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-4_000);
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
      throw new Error(`${name} does not start: ${output}`);
    }
    await sleep(PAUSE_MS);
  }
  return { exited };
}

/**
 * Starts a server on a free port, and retries on another one if that fails: another program may take the port first.
 * @throws the error of the last try
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
