import { lookup } from 'node:dns/promises';
import { isIP, type Socket } from 'node:net';
import { buildConnector } from 'undici';
import type { AddressFilter } from './address-filter.ts';
import { SourceError } from './source-error.ts';

/** Finds the addresses of a host name. */
export type Lookup = (hostname: string) => Promise<string[]>;

/** As the system does, `/etc/hosts` included. A name that takes long holds only some of libuv's threads: lookups get half of them at most. */
export const systemLookup: Lookup = async (hostname) =>
  (await lookup(hostname, { all: true })).map(({ address }) => address);

/** For one address; all of them together are bounded by the time that a source has for its first byte. */
const CONNECT_TIMEOUT_MS = 10_000;

/**
 * Connects for an HTTP client, to permitted addresses alone. The name is looked up here, once; every address that it has must be
 * permitted, and the connection goes to one of those very addresses. So a name that gives another address the next
 * time it is asked (DNS rebinding) gains nothing by it. The certificate is checked against the name all the same.
 * @throws SourceError `source_not_allowed`; what the connection fails with
 */
export function createGuardedConnector(filter: AddressFilter, find: Lookup): buildConnector.connector {
  // Sessions are kept by name; each connection here stands for itself.
  const connect = buildConnector({ timeout: CONNECT_TIMEOUT_MS, maxCachedSessions: 0 });
  const connectTo = (options: buildConnector.Options) =>
    new Promise<Socket>((resolve, reject) => {
      connect(options, (error, socket) => (error ? reject(error) : resolve(socket as Socket)));
    });

  const open = async (options: buildConnector.Options): Promise<Socket> => {
    const hostname = options.hostname.replace(/^\[(.*)\]$/, '$1').toLowerCase();
    const addresses = isIP(hostname) ? [hostname] : await find(hostname);
    if (addresses.length === 0) throw new SourceError('source_unreachable', 'The host of the source has no address.');
    if (!addresses.every((address) => filter.permits(address, hostname))) throw notPublic();
    const failures: unknown[] = [];
    for (const address of addresses) {
      try {
        return await connectTo({ ...options, hostname: address });
      } catch (error) {
        failures.push(error);
      }
    }
    throw failures[0];
  };

  return (options, callback) => {
    open(options).then(
      (socket) => callback(null, socket),
      (error: Error) => callback(error, null),
    );
  };
}

/** Says neither which address nor whether somebody answers there: whoever asks is not to learn what is inside. */
function notPublic(): SourceError {
  return new SourceError(
    'source_not_allowed',
    'The host of the source has an address that is not public: loopback, private, link-local or reserved. The operator of this service can allow it with MDS_FETCH_ALLOW.',
  );
}
