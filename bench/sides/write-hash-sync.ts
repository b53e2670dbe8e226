import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

/** One turn, as the parent process requests it: the files, and the folder for their copies. */
export interface CopyRequest {
  readonly paths: readonly string[];
  readonly folder: string;
}

const THREADS = 8;

/**
 * The least that keeps files for good: threads that read each file, write a copy, hash it and sync it, with synchronous calls.
 * No network, no identification, no database. Answers a {@link CopyRequest} with the milliseconds that it took.
 */
const threads = Array.from(
  { length: THREADS },
  () => new Worker(new URL('./write-hash-sync-thread.mjs', import.meta.url)),
);
await Promise.all(threads.map((thread) => once(thread, 'online')));

async function run(request: CopyRequest): Promise<void> {
  // The index of the first file that no thread has taken, shared by all.
  const turn = { ...request, next: new Int32Array(new SharedArrayBuffer(4)) };
  const start = performance.now();
  await Promise.all(
    threads.map((thread) => {
      const done = once(thread, 'message');
      thread.postMessage(turn);
      return done;
    }),
  );
  process.send?.({ ms: performance.now() - start });
}

process.on('message', (request: CopyRequest) => void run(request));
process.on('disconnect', () => process.exit());
process.send?.({ ready: true });
