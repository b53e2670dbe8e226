import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';
import type { ObjectStore } from '../../../storage/object-store.ts';
import { type ObjectOrigin, OriginUnavailableError } from '../../object-origin.ts';

/** A remote origin: a real HTTP server over an object store, and the client of a point of presence. */
export interface RemoteOrigin {
  origin: ObjectOrigin;
  url: string;
  /** Requested ranges, as `key first-last`. */
  asked: string[];
  /** Largest number of simultaneous requests. */
  mostAtOnce: number;
  /** Changes or delays the bytes in transit. By default they arrive unchanged. */
  transport: (bytes: Buffer, response: ServerResponse) => Buffer | Promise<Buffer>;
  close(): Promise<void>;
}

/** Starts a {@link RemoteOrigin}. */
export async function startRemoteOrigin(store: Pick<ObjectStore, 'read'>): Promise<RemoteOrigin> {
  const asked: string[] = [];
  let underWay = 0;
  const server = createServer(async (request, response) => {
    const key = decodeURIComponent((request.url ?? '').slice(1));
    const [, start, end] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? [];
    asked.push(`${key} ${start}-${end}`);
    underWay += 1;
    remote.mostAtOnce = Math.max(remote.mostAtOnce, underWay);
    response.once('close', () => {
      underWay -= 1;
    });
    const found = await store.read(key, { start: Number(start), end: Number(end) });
    if (found === null) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(206, { 'Content-Length': found.bytes });
    let drained: () => void = () => undefined;
    response.on('drain', () => drained());
    response.on('close', () => {
      found.stream.destroy();
      drained();
    });
    try {
      for await (const chunk of found.stream) {
        const bytes = await remote.transport(chunk as Buffer, response);
        if (response.destroyed) return;
        if (!response.write(bytes)) {
          await new Promise<void>((resolve) => {
            drained = resolve;
          });
        }
      }
      response.end();
    } catch {
      response.destroy();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  const remote: RemoteOrigin = {
    url,
    asked,
    mostAtOnce: 0,
    transport: (bytes) => bytes,
    origin: remoteOriginAt(url),
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return remote;
}

/** The client of a {@link RemoteOrigin} at a point of presence. */
export function remoteOriginAt(url: string): ObjectOrigin {
  return {
    localFile: async () => null,
    async read({ key }, { start, end }, signal) {
      const answer = await fetch(`${url}/${encodeURIComponent(key)}`, {
        headers: { Range: `bytes=${start}-${end}` },
        signal,
      }).catch((cause: unknown) => {
        throw new OriginUnavailableError('The origin does not answer.', { cause });
      });
      if (answer.status === 404) return null;
      return Readable.fromWeb(answer.body as ReadableStream);
    },
  };
}
