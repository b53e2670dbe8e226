import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { createServer, type IncomingMessage, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { MEDIA_ID_HEADER, Problem, TUS_VERSION, UPLOADS_PATH } from '@mds/contract';
import { afterEach } from 'vitest';
import { createLogger } from '../base/logger.ts';
import { sendProblem } from '../http/problem.ts';
import { markAwaitingContinue } from '../http/unread-body.ts';
import { type IngestFixture, ingestFixture } from '../ingest/ingest.fixture.ts';
import { createPieceWriting } from '../ingest/piece-writing.ts';
import { createStagingSpace } from '../ingest/staging-space.ts';
import { createUploads, type Uploads, type UploadsParts } from './uploads.ts';

const logger = createLogger('silent');

export interface UploadAnswer {
  status: number;
  headers: Record<string, string | undefined>;
  /** The problem's code; null if the answer is no problem document. */
  code: string | null;
  detail: string | null;
  /** The offset of the upload; null if the answer contains none. */
  offset: number | null;
  mediaId: string | null;
}

/** A request whose body the test sends piece by piece. */
export interface OpenRequest {
  send(bytes: Buffer): void;
  end(): void;
  cut(): void;
  answer: Promise<UploadAnswer>;
}

/** Uploads over a real database, real files, a real engine and a real socket, driven by raw requests. */
export interface RunningUploads {
  uploads: Uploads;
  folder: string;
  port: number;
  ask(method: string, path: string, headers?: Record<string, string>, body?: Buffer): Promise<UploadAnswer>;
  open(method: string, path: string, headers?: Record<string, string>): OpenRequest;
  /** @returns path of the new upload */
  create(length: number | null, metadata?: Record<string, string>): Promise<string>;
  patch(path: string, offset: number, body: Buffer, headers?: Record<string, string>): Promise<UploadAnswer>;
  head(path: string): Promise<UploadAnswer>;
  /** Ends it as a crash does, without any notice. */
  crash(): Promise<void>;
}

export interface UploadsFixture {
  ingest: IngestFixture;
  run(overrides?: Partial<UploadsParts>): Promise<RunningUploads>;
}

/** Base64 pairs in the format of `Upload-Metadata`. */
export const metadataHeader = (pairs: Record<string, string>) =>
  Object.entries(pairs)
    .map(([key, value]) => `${key} ${Buffer.from(value).toString('base64')}`)
    .join(',');

/** Prepares each test of the file that calls it, and cleans up after it. */
export function uploadsFixture(): UploadsFixture {
  const ingest = ingestFixture();
  const running: { server: Server; uploads: Uploads }[] = [];
  const end = async ({ server, uploads }: (typeof running)[number]) => {
    uploads.endBodies();
    server.closeAllConnections();
    server.close();
    await uploads.stop();
  };
  afterEach(async () => {
    for (const one of running.splice(0)) await end(one);
  });

  return {
    ingest,
    async run(overrides = {}) {
      const folder = join(ingest.root, 'uploads');
      await mkdir(folder, { recursive: true });
      const uploads = createUploads({
        uploads: ingest.repositories.uploads,
        media: ingest.repositories.media,
        ingest: ingest.makeIngest(),
        folder,
        space: createStagingSpace({ folder, maxBytes: 0, minFreeBytes: 0 }),
        writing: createPieceWriting(),
        maxBytes: 2_000_000,
        maxOpen: 100,
        expiryMs: 60_000,
        logger,
        ...overrides,
      });
      await uploads.start();
      const caller = { projectId: 'default', tokenSha256: 'a'.repeat(64) };
      const handle = (req: IncomingMessage, res: Parameters<typeof sendProblem>[1]) => {
        const id = (req.url ?? '').slice(UPLOADS_PATH.length + 1) || null;
        const project = req.headers['x-project'];
        const asked = project === undefined ? caller : { ...caller, projectId: String(project) };
        uploads.serve(req, res, id, asked).catch((error: unknown) => sendProblem(req, res, error, logger));
      };
      const server = createServer(handle);
      server.on('checkContinue', (req, res) => {
        markAwaitingContinue(req);
        handle(req, res);
      });
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      const one = { server, uploads };
      running.push(one);
      return {
        uploads,
        folder: overrides.folder ?? folder,
        ...clientOf((server.address() as AddressInfo).port),
        crash: async () => {
          running.splice(running.indexOf(one), 1);
          server.closeAllConnections();
          server.close();
        },
      };
    },
  };
}

function clientOf(port: number): Omit<RunningUploads, 'uploads' | 'folder' | 'crash'> {
  const open = (method: string, path: string, headers: Record<string, string> = {}): OpenRequest => {
    const req = request({
      port,
      host: '127.0.0.1',
      method,
      path,
      agent: false,
      headers: { 'tus-resumable': TUS_VERSION, ...headers },
    });
    const answer = new Promise<UploadAnswer>((resolve, reject) => {
      req.once('response', (res) => void read(res).then(resolve, reject)).once('error', reject);
    });
    // The test may ignore the answer.
    answer.catch(() => undefined);
    return {
      send: (bytes) => void req.write(bytes),
      end: () => void req.end(),
      cut: () => void req.destroy(),
      answer,
    };
  };
  const ask = async (method: string, path: string, headers: Record<string, string> = {}, body?: Buffer) => {
    const asked = open(method, path, { ...(body ? { 'content-length': String(body.length) } : {}), ...headers });
    if (body) asked.send(body);
    asked.end();
    return asked.answer;
  };
  const patch = (path: string, offset: number, body: Buffer, headers: Record<string, string> = {}) =>
    ask('PATCH', path, { ...OFFSET_OCTETS, 'upload-offset': String(offset), ...headers }, body);
  return {
    port,
    open,
    ask,
    patch,
    head: (path) => ask('HEAD', path),
    async create(length, metadata) {
      const headers: Record<string, string> =
        length === null ? { 'upload-defer-length': '1' } : { 'upload-length': String(length) };
      if (metadata) headers['upload-metadata'] = metadataHeader(metadata);
      const created = await ask('POST', UPLOADS_PATH, headers);
      if (created.status !== 201) throw new Error(`no upload was created: ${created.status} ${created.code}`);
      return created.headers['location'] ?? '';
    },
  };
}

/** The content type that the protocol requires of every body. */
export const OFFSET_OCTETS = { 'content-type': 'application/offset+octet-stream' };

async function read(res: IncomingMessage): Promise<UploadAnswer> {
  const body = await text(res);
  const headers = res.headers as Record<string, string | undefined>;
  const offset = headers['upload-offset'];
  const problem =
    headers['content-type'] === 'application/problem+json' && body !== '' ? Problem.parse(JSON.parse(body)) : null;
  return {
    status: res.statusCode ?? 0,
    headers,
    code: problem?.code ?? null,
    detail: problem?.detail ?? null,
    offset: offset === undefined ? null : Number(offset),
    mediaId: headers[MEDIA_ID_HEADER.toLowerCase()] ?? null,
  };
}
