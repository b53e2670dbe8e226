import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** A reader that takes what it is told to take, and leaves the rest to the sender. */
export interface SlowReader {
  /** Takes what has arrived, about `bytes` of it. @returns what was taken, the head of the answer first */
  take(bytes: number): Promise<Buffer>;
  leave(): void;
}

/** Asks for `path` from `start` on. The system's buffers of a connection on the loopback hold some megabytes, taken or not. */
export async function openSlowReader(url: string, path: string, start: number): Promise<SlowReader> {
  const { hostname, port, host } = new URL(url);
  const socket = connect(Number(port), hostname);
  await once(socket, 'connect');
  socket.pause();
  socket.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\nRange: bytes=${start}-\r\n\r\n`);
  return {
    async take(bytes) {
      const taken: Buffer[] = [];
      for (let length = 0; length < bytes; ) {
        const chunk = socket.read() as Buffer | null;
        if (chunk === null) await arrival(socket);
        else {
          taken.push(chunk);
          length += chunk.length;
        }
      }
      return Buffer.concat(taken);
    },
    leave: () => void socket.destroy(),
  };
}

/** @throws where the connection ends, or nothing comes for long */
async function arrival(socket: Socket): Promise<void> {
  if (socket.destroyed) throw new Error('The service closed the connection of a slow reader.');
  await once(socket, 'readable', { signal: AbortSignal.timeout(20_000) });
  if (socket.readableEnded) throw new Error('The service ended its answer to a slow reader.');
}
