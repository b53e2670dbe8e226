import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import { basename, join } from 'node:path';
import { isMainThread, parentPort, Worker } from 'node:worker_threads';

/** The files of one turn. `next` is shared by all threads: the index of the first file that no thread has taken. */
interface Turn {
  readonly paths: readonly string[];
  readonly folder: string;
  readonly next: Int32Array;
}

/** The request of the parent process for one turn. */
export type CopyRequest = Pick<Turn, 'paths' | 'folder'>;

const THREADS = 8;

/**
 * The least work that stores files durably: threads that read each file, write a copy, hash it and sync it, with synchronous calls.
 * No network, no identification, no database. Answers a {@link CopyRequest} with the milliseconds that it took.
 */
if (isMainThread) {
  const threads = Array.from({ length: THREADS }, () => new Worker(new URL(import.meta.url)));
  await Promise.all(threads.map((thread) => once(thread, 'online')));
  const run = async (request: CopyRequest) => {
    const turn: Turn = { ...request, next: new Int32Array(new SharedArrayBuffer(4)) };
    const start = performance.now();
    await Promise.all(
      threads.map((thread) => {
        const done = once(thread, 'message');
        thread.postMessage(turn);
        return done;
      }),
    );
    process.send?.({ ms: performance.now() - start });
  };
  process.on('message', (request: CopyRequest) => void run(request));
  process.on('disconnect', () => process.exit());
  process.send?.({ ready: true });
} else {
  parentPort?.on('message', ({ paths, folder, next }: Turn) => {
    for (let index = Atomics.add(next, 0, 1); index < paths.length; index = Atomics.add(next, 0, 1)) {
      copy(paths[index] as string, folder);
    }
    parentPort?.postMessage('done');
  });
}

function copy(path: string, folder: string): void {
  const bytes = readFileSync(path);
  const file = openSync(join(folder, basename(path)), 'w');
  writeSync(file, bytes);
  createHash('sha256').update(bytes).digest('hex');
  fsyncSync(file);
  closeSync(file);
}
