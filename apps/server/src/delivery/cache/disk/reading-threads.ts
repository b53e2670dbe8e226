import { Worker } from 'node:worker_threads';

/** A small file, read completely. */
export interface HashedFile {
  /** The content, at most one byte more than was expected. */
  bytes: Buffer;
  /** SHA-256 of them, lower-case hex. */
  sha256: string;
  /** Size of the file. */
  size: number;
}

/**
 * Threads that open, read, hash and close a small file in one turn. As separate calls to the thread pool, these steps take two thirds
 * of the event loop's time for a miss.
 */
export interface ReadingThreads {
  /**
   * @param bytes expected size; of a larger file, one byte more is read
   * @throws the error of the system, with its `code`
   */
  read(path: string, bytes: number): Promise<HashedFile>;
  /** Starts a thread before the first file is requested. */
  warmUp(): void;
  /** Waits for the reads in progress. */
  stop(): Promise<void>;
}

/** Several threads keep several reads in the queue of a slow disk. */
const MAX_THREADS = 4;
/** A thread that has worked on a file for this time is waiting for the disk. */
const SLOW_MS = 5;

type Job = readonly [id: number, path: string, bytes: number];
type Answer = readonly [id: number, bytes: ArrayBuffer, count: number, sha256: string, size: number];
type Failure = readonly [id: number, message: string, code: string | undefined];

/** Plain JavaScript: a thread does not inherit the loader that reads TypeScript when we run from source. */
const source = `
  const { closeSync, fstatSync, openSync, readSync } = require('node:fs');
  const { hash } = require('node:crypto');
  const { parentPort } = require('node:worker_threads');

  function readFile(path, expected) {
    const file = openSync(path, 'r');
    try {
      const bytes = new ArrayBuffer(expected + 1);
      const view = new Uint8Array(bytes);
      let count = 0;
      while (count <= expected) {
        const more = readSync(file, view, count, expected + 1 - count, null);
        if (more === 0) break;
        count += more;
      }
      const size = count === expected ? expected : fstatSync(file).size;
      return { bytes, count, sha256: hash('sha256', view.subarray(0, count)), size };
    } finally {
      closeSync(file);
    }
  }

  parentPort.on('message', (jobs) => {
    for (const [id, path, expected] of jobs) {
      try {
        const { bytes, count, sha256, size } = readFile(path, expected);
        parentPort.postMessage([id, bytes, count, sha256, size], [bytes]);
      } catch (error) {
        parentPort.postMessage([id, error.message, error.code]);
      }
    }
  });
`;

interface Waiting {
  resolve(file: HashedFile): void;
  reject(error: Error): void;
}

/** Makes {@link ReadingThreads}, which start on demand and do not keep the process alive. */
export function createReadingThreads(): ReadingThreads {
  const threads: ReadingThread[] = [];
  let stopped = false;

  const add = (): ReadingThread => {
    const thread = startThread(() => {
      const at = threads.indexOf(thread);
      if (at >= 0) threads.splice(at, 1);
    });
    threads.push(thread);
    return thread;
  };

  /** The thread with the fewest files, or a new one if that thread waits for the disk. */
  const choose = () => {
    const least = threads.reduce<ReadingThread | null>(
      (best, thread) => (best === null || thread.waiting < best.waiting ? thread : best),
      null,
    );
    if (least === null) return add();
    return threads.length < MAX_THREADS && least.busyMs() > SLOW_MS ? add() : least;
  };

  return {
    read(path, bytes) {
      if (stopped) return Promise.reject(new Error('The reading threads are stopped.'));
      return choose().read(path, bytes);
    },

    warmUp() {
      if (threads.length === 0) add();
    },

    async stop() {
      stopped = true;
      await Promise.all(threads.map((thread) => thread.stop()));
    },
  };
}

interface ReadingThread {
  /** Files not yet read. */
  readonly waiting: number;
  /** Time since it began with its current file; 0 if it has none. */
  busyMs(): number;
  read(path: string, bytes: number): Promise<HashedFile>;
  stop(): Promise<void>;
}

/** @param onGone called when the thread has ended: it can take no more files */
function startThread(onGone: () => void): ReadingThread {
  const worker = new Worker(source, { eval: true, execArgv: [], env: {} });
  worker.unref();
  const waiting = new Map<number, Waiting>();
  let nextId = 0;
  let gathered: Job[] = [];
  let busySince = 0;
  let onIdle: (() => void) | null = null;

  const settle = (id: number): Waiting | undefined => {
    const found = waiting.get(id);
    waiting.delete(id);
    busySince = performance.now();
    if (waiting.size === 0) onIdle?.();
    return found;
  };
  const end = (error: Error) => {
    onGone();
    for (const id of [...waiting.keys()]) settle(id)?.reject(error);
  };

  worker.on('message', (message: Answer | Failure) => {
    if (message.length === 5) {
      const [id, bytes, count, sha256, size] = message;
      settle(id)?.resolve({ bytes: Buffer.from(bytes, 0, count), sha256, size });
    } else {
      const [id, text, code] = message;
      settle(id)?.reject(Object.assign(new Error(text), { code }));
    }
  });
  worker.on('error', end);
  worker.on('exit', () => end(new Error('A thread that reads files has ended.')));

  return {
    get waiting() {
      return waiting.size;
    },
    busyMs: () => (waiting.size === 0 ? 0 : performance.now() - busySince),

    read(path: string, bytes: number): Promise<HashedFile> {
      return new Promise((resolve, reject) => {
        const id = nextId++;
        if (waiting.size === 0) busySince = performance.now();
        waiting.set(id, { resolve, reject });
        gathered.push([id, path, bytes]);
        if (gathered.length > 1) return;
        // Waking a thread costs more than most of its work. The files of one turn of the event loop go out together.
        setImmediate(() => {
          const jobs = gathered;
          gathered = [];
          worker.postMessage(jobs);
        });
      });
    },

    async stop(): Promise<void> {
      if (waiting.size > 0) {
        await new Promise<void>((resolve) => {
          onIdle = resolve;
        });
      }
      await worker.terminate();
    },
  };
}
