import { Worker } from 'node:worker_threads';

/** SHA-256 of a file that grows. */
export interface FileHash {
  /** The first `bytes` bytes are written and no longer change: they may be hashed while more arrive. */
  follow(bytes: number): void;
  /** @returns the hash of the first `bytes` bytes, in lower-case hex @throws if there are fewer, or the file cannot be read */
  digest(bytes: number): Promise<string>;
  /** Drops the hash: hashed bytes may have been cut off, or the hash is no longer needed. The next digest reads the file anew. */
  forget(): void;
}

/** A thread that reads files behind their writers and hashes them. */
export interface FileHashing {
  of(path: string): FileHash;
  /** Ends the thread; pending digests are rejected. */
  stop(): Promise<void>;
}

/** Waking the thread for less costs more than it saves at the final digest. */
const FOLLOWED_BYTES = 4 * 1024 * 1024;

/** The thread keeps almost no data. Without limits, it would let tens of megabytes of garbage pile up. */
const LIMITS = { maxYoungGenerationSizeMb: 2, maxOldGenerationSizeMb: 32 };

type Job = readonly [kind: 'follow' | 'digest' | 'forget', file: number, path: string, bytes: number, digest: number];
type Answer = readonly [digest: number, sha256: string | null, message: string, code: string | undefined];

/** Plain JavaScript: a thread does not inherit the loader that reads TypeScript when we run from source. */
const source = `
  const { closeSync, openSync, readSync } = require('node:fs');
  const { createHash } = require('node:crypto');
  const { parentPort } = require('node:worker_threads');

  /** By file: the hash and the number of bytes read. */
  const files = new Map();
  const piece = new Uint8Array(1024 * 1024);
  /** After so many bytes of one file it is the next file's turn. */
  const TURN_BYTES = 16 * 1024 * 1024;
  let jobs = [];
  let working = false;

  /** Hashes up to that length. Returns false if there is more to do than one turn allows. */
  function advance(kind, id, path, bytes) {
    let file = files.get(id);
    if (kind === 'follow' && file !== undefined && file.bytes >= bytes) return true;
    if (file === undefined || file.bytes > bytes) files.set(id, (file = { hash: createHash('sha256'), bytes: 0 }));
    const end = Math.min(bytes, file.bytes + TURN_BYTES);
    const open = openSync(path, 'r');
    try {
      while (file.bytes < end) {
        const count = readSync(open, piece, 0, Math.min(piece.length, end - file.bytes), file.bytes);
        if (count === 0) throw new Error('The file is shorter than what was written into it.');
        file.hash.update(piece.subarray(0, count));
        file.bytes += count;
      }
    } finally {
      closeSync(open);
    }
    return file.bytes === bytes;
  }

  function work() {
    const job = jobs.shift();
    if (job === undefined) {
      working = false;
      return;
    }
    const [kind, id, path, bytes, digest] = job;
    try {
      if (!advance(kind, id, path, bytes)) jobs.push(job);
      // A copy: a digest ends its hash, and another digest may be asked for.
      else if (kind === 'digest') parentPort.postMessage([digest, files.get(id).hash.copy().digest('hex'), '', undefined]);
    } catch (error) {
      files.delete(id);
      if (kind === 'digest') parentPort.postMessage([digest, null, error.message, error.code]);
    }
    setImmediate(work);
  }

  parentPort.on('message', (job) => {
    const [kind, id] = job;
    if (kind === 'forget') {
      files.delete(id);
      // Pending follow jobs would read beyond the place where the file is cut.
      jobs = jobs.filter(([other, file]) => other !== 'follow' || file !== id);
      return;
    }
    jobs.push(job);
    if (!working) setImmediate(work);
    working = true;
  });
`;

/** {@link FileHashing}, whose thread is started when the first file is hashed, and does not keep the process alive. */
export function createFileHashing(): FileHashing {
  const waiting = new Map<number, { resolve(sha256: string): void; reject(error: Error): void }>();
  let thread: Worker | null = null;
  let nextFile = 0;
  let nextDigest = 0;

  const start = (): Worker => {
    const worker = new Worker(source, { eval: true, execArgv: [], env: {}, resourceLimits: LIMITS });
    worker.unref();
    const end = (error: Error) => {
      if (thread === worker) thread = null;
      for (const { reject } of waiting.values()) reject(error);
      waiting.clear();
    };
    worker.on('message', ([digest, sha256, message, code]: Answer) => {
      const asking = waiting.get(digest);
      waiting.delete(digest);
      if (sha256 === null) asking?.reject(Object.assign(new Error(message), { code }));
      else asking?.resolve(sha256);
    });
    worker.on('error', end);
    worker.on('exit', () => end(new Error('The thread that hashes files has ended.')));
    return worker;
  };
  const send = (job: Job) => {
    thread ??= start();
    thread.postMessage(job);
  };

  return {
    of(path) {
      const file = nextFile++;
      let followed = 0;
      return {
        follow(bytes) {
          if (bytes - followed < FOLLOWED_BYTES) return;
          followed = bytes;
          send(['follow', file, path, bytes, 0]);
        },
        digest(bytes) {
          return new Promise((resolve, reject) => {
            const digest = nextDigest++;
            waiting.set(digest, { resolve, reject });
            send(['digest', file, path, bytes, digest]);
          });
        },
        forget() {
          followed = 0;
          if (thread !== null) send(['forget', file, path, 0, 0]);
        },
      };
    },

    async stop() {
      await thread?.terminate();
    },
  };
}
