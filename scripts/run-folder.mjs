// The folder that the test files of one run share. Nothing in it was made by other code.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Names the folder to the processes of a run, which inherit their environment. */
export const RUN_FOLDER_VARIABLE = 'MDS_TEST_RUN_FOLDER';

/**
 * Makes a folder that ends with this process, also if that is killed.
 * @returns its path, and what removes it
 */
export function makeRunFolder() {
  const folder = mkdtempSync(join(tmpdir(), 'mds-run-'));
  // Its input ends when we close it or are gone. A session of its own: an interrupt at the terminal is for the tests.
  const guard = spawn('/bin/sh', ['-c', 'read -r _; rm -rf "$1"', 'guard', folder], {
    detached: true,
    cwd: '/',
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  const removed = once(guard, 'exit');
  return {
    folder,
    async remove() {
      guard.stdin.end();
      await removed;
    },
  };
}

/**
 * Vitest calls this before all tests, once for each project. `npm test` has made a folder for all of its processes.
 * @returns removes what it made
 */
export async function setup() {
  if (process.env[RUN_FOLDER_VARIABLE] !== undefined) return () => undefined;
  const { folder, remove } = makeRunFolder();
  process.env[RUN_FOLDER_VARIABLE] = folder;
  return remove;
}
