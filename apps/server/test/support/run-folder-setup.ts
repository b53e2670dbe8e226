import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * A folder for what the test files of one run share (`known-formats.ts`): nothing in it was made by other code. It goes with the run,
 * also when that is killed. Vitest calls this by its name before everything else.
 * @returns removes the folder
 */
export async function setup(): Promise<() => Promise<void>> {
  // By the environment, as that is what the processes of the tests inherit. Each project of the run calls this; the folder of the first
  // is everybody's.
  if (process.env['MDS_TEST_RUN_FOLDER'] !== undefined) return async () => undefined;
  const folder = await mkdtemp(join(tmpdir(), 'mds-run-'));
  process.env['MDS_TEST_RUN_FOLDER'] = folder;
  // Its input ends when we say so or are gone. In a session of its own: an interrupt at the terminal is for the tests.
  const guard = spawn('/bin/sh', ['-c', 'read -r _; rm -rf "$1"', 'guard', folder], {
    ...{ detached: true, cwd: '/' },
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  const removed = once(guard, 'exit');
  return async () => {
    guard.stdin.end();
    await removed;
  };
}
