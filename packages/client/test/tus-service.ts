import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { FileStore } from '@tus/file-store';
import { Server, type Upload } from '@tus/server';
import { sendJson, startServer, type TestServer } from './http-server.ts';

/** The result of a finished upload. */
export interface Arrived {
  id: string;
  sha256: string;
  bytes: number;
  metadata: Record<string, string | null>;
}

/** The upload half of the service, on the reference implementation of tus; it does not process files. */
export interface TusService extends TestServer {
  arrived: Arrived[];
  /** Upload-Offset of every PATCH. */
  patchedFrom(): number[];
  /** Drops unfinished uploads, as if they had expired. */
  forgetUploads(): Promise<void>;
}

/** Answers a request in place of the service; returns true if it did. */
export type Instead = (request: IncomingMessage, response: ServerResponse, n: number) => boolean;

/**
 * Starts the service on a free port.
 * @param instead called before every request
 */
export async function startTusService(instead: Instead = () => false): Promise<TusService> {
  const directory = await mkdtemp(join(tmpdir(), 'mds-tus-'));
  const datastore = new FileStore({ directory });
  const arrived: Arrived[] = [];
  const tus = new Server({
    path: '/control/v1/uploads',
    datastore,
    maxSize: 1024 ** 3,
    async onUploadFinish(_, upload: Upload) {
      const hash = createHash('sha256');
      await pipeline(createReadStream(join(directory, upload.id)), hash);
      const sha256 = hash.digest('hex');
      arrived.push({ id: `med_${upload.id}`, sha256, bytes: upload.size ?? 0, metadata: upload.metadata ?? {} });
      return { headers: { 'MDS-Media-Id': `med_${upload.id}`, 'MDS-Media-Created': 'true' } };
    },
  });
  const server = await startServer(async (request, response, n) => {
    if (instead(request, response, n)) return;
    const last = basename(request.url ?? '');
    if (request.url?.startsWith('/control/v1/media/')) {
      sendJson(response, 200, { ...arrived.find(({ id }) => id === last) });
      return;
    }
    if (request.method === 'HEAD' && arrived.some(({ id }) => id === `med_${last}`)) {
      response.setHeader('MDS-Media-Id', `med_${last}`);
    }
    await tus.handle(request, response);
  });
  return {
    ...server,
    arrived,
    patchedFrom: () => {
      const patches = server.headers.filter((_, n) => server.requests[n]?.startsWith('PATCH '));
      return patches.map((headers) => Number(headers['upload-offset']));
    },
    forgetUploads: async () => {
      for (const upload of (await datastore.configstore.list?.()) ?? []) await datastore.remove(upload);
    },
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
