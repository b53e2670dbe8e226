import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** A reader on a connection of its own that takes only so much as it is told to. */
export interface SlowReader {
  /** Bytes of the body that were read so far. */
  body(): Buffer;
  /** Takes what is there until there are so many bytes more of the body; then nothing again. */
  take(bytes: number): Promise<void>;
  leave(): void;
}

/**
 * Asks for a path from position `start` on, and takes the head of the answer. What it does not take stays with the sender: the
 * system's buffers of a connection on the loopback hold some megabytes.
 * @throws where the answer is no 206
 */
export async function openSlowReader(port: number, path: string, start: number): Promise<SlowReader> {
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  socket.pause();
  socket.write(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nRange: bytes=${start}-\r\n\r\n`);
  let read = Buffer.alloc(0);
  let bodyAt = -1;
  const takeUntil = async (enough: () => boolean) => {
    while (!enough()) {
      const chunk = socket.read() as Buffer | null;
      if (chunk === null) await readable(socket);
      else read = Buffer.concat([read, chunk]);
    }
  };
  await takeUntil(() => {
    const end = read.indexOf('\r\n\r\n');
    bodyAt = end < 0 ? -1 : end + 4;
    return end >= 0;
  });
  const status = read.toString('latin1', 0, read.indexOf('\r\n'));
  if (!status.includes(' 206 ')) throw new Error(`A slow reader was answered: ${status}`);
  return {
    body: () => read.subarray(bodyAt),
    take(bytes) {
      const goal = read.length + bytes;
      return takeUntil(() => read.length >= goal);
    },
    leave: () => void socket.destroy(),
  };
}

/** @throws where the connection ends */
async function readable(socket: Socket): Promise<void> {
  if (socket.readableEnded || socket.destroyed) throw new Error('The connection of a slow reader ended.');
  const over = new AbortController();
  try {
    await Promise.race([
      once(socket, 'readable', over),
      once(socket, 'close', over).then(() => {
        throw new Error('The connection of a slow reader was closed.');
      }),
    ]);
  } finally {
    over.abort();
  }
}
