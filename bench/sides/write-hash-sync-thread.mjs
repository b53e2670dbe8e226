// A thread of write-hash-sync.ts. Plain JavaScript, because on Node 20 a thread does not load TypeScript.
import { createHash } from 'node:crypto';
import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import { basename, join } from 'node:path';
import { parentPort } from 'node:worker_threads';

parentPort?.on('message', ({ paths, folder, next }) => {
  for (let index = Atomics.add(next, 0, 1); index < paths.length; index = Atomics.add(next, 0, 1)) {
    copy(paths[index], folder);
  }
  parentPort?.postMessage('done');
});

/** Reads a file, writes a copy, hashes it and syncs it. */
function copy(/** @type {string} */ path, /** @type {string} */ folder) {
  const bytes = readFileSync(path);
  const file = openSync(join(folder, basename(path)), 'w');
  writeSync(file, bytes);
  createHash('sha256').update(bytes).digest('hex');
  fsyncSync(file);
  closeSync(file);
}
