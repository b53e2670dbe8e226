import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** The settings `MDS_HOST` and `MDS_PORT`. */
interface ListenAddress {
  host: string;
  port: number;
}

/** The service cannot listen on the address. The message names the setting to change. */
export class ListenError extends Error {
  constructor({ host, port }: ListenAddress, cause: NodeJS.ErrnoException) {
    const reasons: Record<string, string> = {
      EADDRINUSE: `Port ${port} of ${host} is taken by another program. Stop that one, or choose another port with MDS_PORT (0: any free one).`,
      EACCES: `Port ${port} may not be used by this user. Choose one above 1023 with MDS_PORT.`,
      EADDRNOTAVAIL: `MDS_HOST: ${host} is not an address of this machine. Use 127.0.0.1, 0.0.0.0 or one of its own.`,
      ENOTFOUND: `MDS_HOST: the name ${host} is not known. Use 127.0.0.1, 0.0.0.0 or an address of this machine.`,
    };
    super(reasons[cause.code ?? ''] ?? `The service cannot listen on ${host}, port ${port}: ${cause.message}.`, {
      cause,
    });
    this.name = 'ListenError';
  }
}

/**
 * Connections that may wait to be accepted; the system may cap it lower. Node's default of 511 fills in a burst. Clients that find it full
 * are not refused, but retry after one second, and then three.
 */
const BACKLOG = 4_096;

/** Listens on the configured address. @returns the address @throws ListenError */
export async function listen(server: Server, config: ListenAddress): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => reject(new ListenError(config, error)));
    server.listen(config.port, config.host, BACKLOG, () => {
      server.removeAllListeners('error');
      resolve();
    });
  });
  const { port } = server.address() as AddressInfo;
  const host = config.host.includes(':') ? `[${config.host}]` : config.host;
  return `http://${host}:${port}`;
}
