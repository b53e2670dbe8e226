import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A proxy that cuts connections. */
export interface CuttingProxy {
  url: string;
  /** How many connections were cut so far. */
  readonly cuts: number;
  stop(): Promise<void>;
}

/**
 * Starts a proxy that resets a connection after so many bytes from the client.
 * @param lengths one for each cut, in bytes; later connections are not cut
 */
export async function cuttingProxy(target: string, lengths: readonly number[]): Promise<CuttingProxy> {
  const { hostname, port } = new URL(target);
  const left = [...lengths];
  const sockets = new Set<Socket>();
  let cuts = 0;
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    let passed = 0;
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket
        .on('error', () => undefined)
        .on('close', () => {
          sockets.delete(socket);
          client.destroy();
          upstream.destroy();
        });
    }
    client.on('data', (bytes: Buffer) => {
      passed += bytes.length;
      const [bound] = left;
      if (bound === undefined || passed < bound) {
        if (!upstream.write(bytes)) {
          client.pause();
          upstream.once('drain', () => client.resume());
        }
        return;
      }
      left.shift();
      cuts++;
      client.resetAndDestroy();
    });
    upstream.on('data', (bytes: Buffer) => void client.write(bytes));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get cuts() {
      return cuts;
    },
    async stop() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
