import { lookup } from 'node:dns/promises';
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { AddressFilter } from './address-filter.ts';
import { SourceError } from './source-error.ts';

/** Finds the addresses of a host name. */
export type Lookup = (hostname: string) => Promise<string[]>;

/** Like the system, including `/etc/hosts`. Slow names hold only some of libuv's threads: lookups get at most half of them. */
export const systemLookup: Lookup = async (hostname) =>
  (await lookup(hostname, { all: true })).map(({ address }) => address);

/** Connects to the host of a URL, TLS included. Aborting `signal` destroys what was begun. */
export type Connect = (url: URL, signal: AbortSignal) => Promise<Socket>;

/** For one address. All addresses together are bounded by the time limit for the source's first byte. */
const CONNECT_TIMEOUT_MS = 10_000;

/**
 * Connects to permitted addresses only. The name is looked up here, once. All its addresses must be permitted, and the connection goes to
 * one of them: a name with another address at the next lookup (DNS rebinding) gains nothing. The certificate is still checked against the
 * name.
 * @throws SourceError `source_not_allowed`; the failure of the connection
 */
export function createGuardedConnector(filter: AddressFilter, find: Lookup): Connect {
  return async (url, signal) => {
    const hostname = url.hostname.replace(/^\[(.*)\]$/, '$1').toLowerCase();
    const addresses = isIP(hostname) ? [hostname] : await find(hostname);
    if (addresses.length === 0) throw new SourceError('source_unreachable', 'The host of the source has no address.');
    if (!addresses.every((address) => filter.permits(address, hostname))) throw notPublic();
    const failures: unknown[] = [];
    for (const address of addresses) {
      // Checked again after the lookup, which may have taken long.
      signal.throwIfAborted();
      try {
        return await connectTo(address, hostname, url, signal);
      } catch (error) {
        failures.push(error);
      }
    }
    throw failures[0];
  };
}

function connectTo(address: string, hostname: string, url: URL, signal: AbortSignal): Promise<Socket> {
  const isTls = url.protocol === 'https:';
  const port = Number(url.port || (isTls ? 443 : 80));
  const socket = isTls
    ? connectTls({
        ...{ host: address, port, ALPNProtocols: ['http/1.1'] },
        // Only names may be indicated (RFC 6066, section 3); an address is looked for in the certificate itself.
        ...(isIP(hostname) ? {} : { servername: hostname }),
      })
    : connectTcp({ host: address, port });
  return new Promise((resolve, reject) => {
    const settle = (how: () => void) => {
      clearTimeout(timer);
      signal.removeEventListener('abort', giveUp);
      socket.off('error', fail);
      how();
    };
    const fail = (error: unknown) =>
      settle(() => {
        // Nobody listens any more.
        socket.on('error', () => undefined).destroy();
        reject(error);
      });
    const giveUp = () => fail(signal.reason);
    const timer = setTimeout(
      () => fail(Object.assign(new Error('The connection took too long.'), { code: 'ETIMEDOUT' })),
      CONNECT_TIMEOUT_MS,
    );
    signal.addEventListener('abort', giveUp, { once: true });
    socket.on('error', fail).once(isTls ? 'secureConnect' : 'connect', () => settle(() => resolve(socket)));
  });
}

/** Names neither the address nor whether anything answers there: clients must not learn about the internal network. */
function notPublic(): SourceError {
  return new SourceError(
    'source_not_allowed',
    'The host of the source has an address that is not public: loopback, private, link-local or reserved. The operator of this service can allow it with MDS_FETCH_ALLOW.',
  );
}
