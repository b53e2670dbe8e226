import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** A reader with its own connection that reads only on demand. */
export interface SlowReader {
  /** The body, as far as it was read. */
  body(): Buffer;
  /**
   * Reads so many more bytes, and then pauses.
   * @throws if the connection ends, or no byte arrives for long
   */
  take(bytes: number): Promise<void>;
  leave(): void;
}

/** Longer than any of these requests takes. */
const ARRIVAL_MS = 20_000;
const HEAD_END = '\r\n\r\n';
/** An overloaded service sends Retry-After: 1. */
const MOST_TRIES = 20;

/**
 * Requests a path from position `start` on, and reads the head of the response. Unread bytes stay with the sender: the system buffers some
 * megabytes of a loopback connection. It follows Retry-After. It imports nothing of the service, because benchmarks use it.
 * @throws if the response is no 206
 */
export async function openSlowReader(url: string, path: string, start: number): Promise<SlowReader> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await openOnce(url, path, start);
    } catch (error) {
      if (!(error instanceof RefusedError) || tries === MOST_TRIES) throw error;
      await sleep(1_000);
    }
  }
}

class RefusedError extends Error {}

async function openOnce(url: string, path: string, start: number): Promise<SlowReader> {
  const { hostname, port, host } = new URL(url);
  const socket = connect(Number(port), hostname);
  await once(socket, 'connect');
  socket.pause();
  socket.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\nRange: bytes=${start}-\r\n\r\n`);
  const chunks: Buffer[] = [];
  const next = async (): Promise<Buffer> => {
    for (;;) {
      const chunk = socket.read() as Buffer | null;
      if (chunk !== null) return chunk;
      await arrival(socket);
    }
  };
  let head = Buffer.alloc(0);
  while (!head.includes(HEAD_END)) head = Buffer.concat([head, await next()]);
  const bodyAt = head.indexOf(HEAD_END) + HEAD_END.length;
  const status = head.toString('latin1', 0, head.indexOf('\r\n'));
  const message = `A slow reader got ${status}`;
  if (!status.startsWith('HTTP/1.1 206 ')) socket.destroy();
  if (status.startsWith('HTTP/1.1 503 ') && head.includes('Retry-After: 1\r\n')) throw new RefusedError(message);
  if (!status.startsWith('HTTP/1.1 206 ')) throw new Error(message);
  chunks.push(head.subarray(bodyAt));
  return {
    body: () => Buffer.concat(chunks),
    async take(bytes) {
      for (let length = 0; length < bytes; ) {
        const chunk = await next();
        chunks.push(chunk);
        length += chunk.length;
      }
    },
    leave: () => void socket.destroy(),
  };
}

async function arrival(socket: Socket): Promise<void> {
  if (socket.readableEnded || socket.destroyed) throw new Error('The connection of a slow reader ended.');
  const over = new AbortController();
  try {
    await Promise.race([
      once(socket, 'readable', over),
      once(socket, 'close', over).then(() => {
        throw new Error('The connection of a slow reader was closed.');
      }),
      sleep(ARRIVAL_MS, undefined, over).then(() => {
        throw new Error(`A slow reader got nothing for ${ARRIVAL_MS / 1000} s.`);
      }),
    ]);
  } finally {
    over.abort();
  }
}
