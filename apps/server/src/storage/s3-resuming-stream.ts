import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { failureOf, S3Failure, storageRefusal } from './s3-failure.ts';

/** Times in a row that a body may break off without any byte. */
const FRUITLESS_TRIES = 4;
const PAUSE_MS = 200;
/** Bytes that are read ahead count in no memory budget. The system's own buffers hold more. */
const READ_AHEAD_BYTES = 128 * 1024;

/**
 * A stream of exactly `bytes` bytes over bodies that may break off: the rest is requested again. It ends only after all bytes, and fails
 * if they do not come: a reader that reaches the end has everything.
 * @param parts.body the first body, from the beginning
 * @param parts.reopen returns a body of the bytes from `offset` on; null if the object is gone
 */
export function createResumingStream(parts: {
  bytes: number;
  body: Readable;
  reopen: (offset: number) => Promise<Readable | null>;
}): Readable {
  const { bytes, reopen } = parts;
  const stopping = new AbortController();
  let body: Readable | null = null;
  let received = 0;
  let fruitless = 0;
  /** Whether the reader wants more. If it pauses, requests must not time out one after the other. */
  let wanted = true;
  /** Why the last body broke off, until the reader wants more. */
  let brokenOff: { error: Error | null } | null = null;

  const fail = (code: string) => stream.destroy(storageRefusal(new S3Failure('GetObject', code, 0, null), 'read'));

  const follow = (next: Readable) => {
    body = next;
    const before = received;
    let over = false;
    const end = (error: Error | null) => {
      if (over || stream.destroyed) return;
      over = true;
      if (received === bytes) {
        stream.push(null);
        return;
      }
      fruitless = received > before ? 0 : fruitless + 1;
      brokenOff = { error };
      if (wanted) goOn();
    };
    next
      .on('data', (chunk: Buffer) => {
        received += chunk.length;
        if (received > bytes) fail('TooManyBytes');
        else if (!stream.push(chunk)) {
          wanted = false;
          next.pause();
        }
      })
      .on('end', () => end(null))
      .on('error', end)
      .on('close', () => end(null));
  };

  const goOn = () => {
    if (brokenOff === null) {
      body?.resume();
      return;
    }
    const { error } = brokenOff;
    brokenOff = null;
    resume(error).catch((reason: unknown) => stream.destroy(reason as Error));
  };

  const resume = async (error: Error | null) => {
    if (fruitless >= FRUITLESS_TRIES) {
      const failure =
        error === null ? new S3Failure('GetObject', 'EndedEarly', 0, null) : failureOf(error, 'GetObject');
      throw storageRefusal(failure, 'read');
    }
    if (fruitless > 0) await sleep(PAUSE_MS * fruitless * (0.5 + Math.random()), null, { signal: stopping.signal });
    const next = await reopen(received);
    if (next === null) fail('GoneMeanwhile');
    else if (stream.destroyed) next.on('error', () => undefined).destroy();
    else follow(next);
  };

  const stream: Readable = new Readable({
    highWaterMark: READ_AHEAD_BYTES,
    read() {
      wanted = true;
      goOn();
    },
    destroy(error, done) {
      stopping.abort();
      body?.destroy();
      done(error);
    },
  });
  follow(parts.body);
  return stream;
}
