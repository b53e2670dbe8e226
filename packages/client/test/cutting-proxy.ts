import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A network that breaks between a client and a service. */
export interface CuttingProxy extends AsyncDisposable {
  url: string;
  /** How often it was cut. */
  cuts(): number;
}

/**
 * Passes TCP connections on to a service, and cuts one after each given number of bytes towards the service.
 * @param cutAfter bytes from one cut to the next; after the last entry nothing is cut
 * @param silently keeps the client's connection open, but passes nothing on
 */
export async function startCuttingProxy(
  serviceUrl: string,
  cutAfter: readonly number[],
  silently = false,
): Promise<CuttingProxy> {
  const { hostname, port } = new URL(serviceUrl);
  const limits = [...cutAfter];
  const sockets = new Set<Socket>();
  const stalled = new Set<Socket>();
  let passed = 0;
  let cuts = 0;
  const keep = (socket: Socket) => {
    sockets.add(socket);
    // The only error of a cut connection is the cut itself.
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
    return socket;
  };
  const server = createServer((client) => {
    const service = keep(connect(Number(port), hostname));
    keep(client).on('data', (bytes) => {
      passed += bytes.length;
      const limit = limits[0];
      if (limit !== undefined && passed >= limit) {
        limits.shift();
        passed = 0;
        cuts++;
        if (silently) {
          client.pause().removeAllListeners('data');
          stalled.add(client);
        } else client.resetAndDestroy();
        service.destroy();
        return;
      }
      if (!service.write(bytes)) client.pause();
    });
    service.on('drain', () => client.resume());
    service.on('data', (bytes) => client.write(bytes));
    client.on('close', () => service.destroy());
    service.on('close', () => {
      if (!stalled.has(client)) client.destroy();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cuts: () => cuts,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
