import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A proxy whose connections can go silent, as if a firewall had dropped them. */
export interface SilentProxy {
  /** The target's URL, with the proxy's host and port. */
  url: string;
  /**
   * From now on, open connections drop all bytes without notice. Later connections work.
   * @param lost of `answers`, what is sent still arrives
   */
  goSilent(lost?: 'everything' | 'answers'): void;
  stop(): Promise<void>;
}

/** Starts a proxy that passes everything on. */
export async function silentProxy(target: string): Promise<SilentProxy> {
  const { hostname, port } = new URL(target);
  const lines = new Set<{ client: Socket; upstream: Socket; lost: 'nothing' | 'everything' | 'answers' }>();
  // Half open: on a silent connection, neither side learns that the other has closed it.
  const server = createServer({ allowHalfOpen: true }, (client) => {
    const upstream = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
    const line = { client, upstream, lost: 'nothing' as 'nothing' | 'everything' | 'answers' };
    lines.add(line);
    for (const socket of [client, upstream]) {
      socket
        .on('error', () => undefined)
        .on('close', () => {
          if (line.lost !== 'nothing') return;
          lines.delete(line);
          client.destroy();
          upstream.destroy();
        });
    }
    client
      .on('data', (bytes: Buffer) => line.lost === 'everything' || upstream.write(bytes))
      .on('end', () => line.lost !== 'nothing' || upstream.end());
    upstream
      .on('data', (bytes: Buffer) => line.lost !== 'nothing' || client.write(bytes))
      .on('end', () => line.lost !== 'nothing' || client.end());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = new URL(target);
  url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url: url.href,
    goSilent(lost = 'everything') {
      for (const line of lines) line.lost = lost;
    },
    async stop() {
      for (const { client, upstream } of lines) for (const socket of [client, upstream]) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
