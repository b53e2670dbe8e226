import { createHash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingHttpHeaders, request, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RenditionState } from '@mds/contract';
import { pino } from 'pino';
import { ulid } from 'ulid';
import { renditionKey } from '../base/object-key.ts';
import type { AssetRecord } from '../db/delivery-repository.ts';
import type { NewMedia, RenditionRecord } from '../db/media-repository.ts';
import type { Repositories } from '../db/repositories.ts';
import { openSqliteRepositories } from '../db/sqlite/open-repositories.ts';
import { sendProblem } from '../http/problem.ts';
import { hashFile } from '../processing/hash-file.ts';
import { createLocalObjectStore } from '../storage/local-object-store.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import { createLocalObjectOrigin } from './cache/origin/local-object-origin.ts';
import { type RemoteOrigin, startRemoteOrigin } from './cache/origin/remote-origin.fixture.ts';
import { createDatabaseResolver } from './database-resolver.ts';
import { createDelivery, type Delivery } from './delivery.ts';
import type { ObjectOrigin } from './object-origin.ts';
import { createRequestLog, type RequestLog } from './request-log.ts';

/** A rendition to deliver. If `content` is null, there is a row but no object. */
export interface FixtureRendition {
  name: string;
  extension: string;
  contentType: string;
  content: Buffer | null;
  revision?: string;
  state?: RenditionState;
  reason?: string;
  width?: number;
}

export interface FixtureAnswer {
  status: number;
  headers: IncomingHttpHeaders;
  rawHeaders: string[];
  body: Buffer;
}

/** A real delivery over real SQLite and real files, behind plain `node:http` on a free port. */
export interface DeliveryFixture {
  url: string;
  port: number;
  readonly delivery: Delivery;
  /** Replaces this delivery by a new one over the same folders, as a restart of the service does. */
  restart(changed?: { diskCacheBytes?: number }): Promise<void>;
  requestLog: RequestLog;
  repositories: Repositories;
  /** The database file, for tests that write to it as another process would. */
  databaseFile: string;
  server: Server;
  store: ObjectStore;
  /** The remote origin of the objects; only with the option `remote`. */
  readonly remote: RemoteOrigin;
  /** Temporary folder, which `close` removes. */
  folder: string;
  /** Lines of the service's log. */
  logged: { level: number; msg: string }[];
  /** Adds a media object and publishes its renditions, unless `state` is another than `ready`. */
  addMedia(renditions: FixtureRendition[], state?: 'queued' | 'processing' | 'ready' | 'failed'): Promise<string>;
  /** Path of the file that holds a rendition. */
  objectFile(mediaId: string, rendition: { name: string; extension: string; revision?: string }): Promise<string>;
  get(path: string, headers?: Record<string, string>, method?: string): Promise<FixtureAnswer>;
  /** Sends raw bytes and returns all that is received until the connection closes. */
  raw(bytes: string): Promise<string>;
  /** Writes the request log and returns the asset records. */
  assets(): Promise<AssetRecord[]>;
  close(): Promise<void>;
}

export const REVISION = '0a1b2c3d';

export const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

/** Bytes that depend on their offset, so that a range from a wrong offset is noticed. */
export function pattern(length: number, seed = 0): Buffer {
  const bytes = Buffer.allocUnsafe(length);
  for (let at = 0; at < length; at += 1) bytes[at] = (at * 31 + (at >> 8) * 17 + seed) & 0xff;
  return bytes;
}

export async function startDelivery(
  options: {
    memoryCacheBytes?: number;
    pinnedBytes?: number;
    /** Size of the cache folder, `cache` in the fixture's folder. */
    diskCacheBytes?: number;
    /** Stores no digests of pieces, as for objects older than these digests. */
    pieceDigests?: 'unknown';
    /** The objects are at a remote origin, over HTTP. */
    remote?: true;
    wrapOrigin?: (origin: ObjectOrigin) => ObjectOrigin;
  } = {},
): Promise<DeliveryFixture> {
  const folder = await mkdtemp(join(tmpdir(), 'mds-delivery-'));
  const root = join(folder, 'objects');
  const databaseFile = join(folder, 'mds.sqlite');
  const repositories = openSqliteRepositories(databaseFile);
  const store = createLocalObjectStore({ root });
  const remote = options.remote ? await startRemoteOrigin(store) : null;
  const origin = remote?.origin ?? createLocalObjectOrigin({ root });
  const logged: { level: number; msg: string }[] = [];
  const logger = pino({ level: 'trace' }, { write: (line: string) => void logged.push(JSON.parse(line)) });
  const requestLog = createRequestLog({ assets: repositories.assets, logger });
  const server = createServer((req, res) => {
    delivery.handle(req, res).catch((error: unknown) => sendProblem(req, res, error, logger));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  const build = ({ diskCacheBytes }: { diskCacheBytes?: number }) =>
    createDelivery({
      origin: options.wrapOrigin?.(origin) ?? origin,
      diskCache: diskCacheBytes ? { dir: join(folder, 'cache'), maxBytes: diskCacheBytes } : null,
      keepDigests: repositories.pieceDigests.put,
      ...(options.pinnedBytes !== undefined && { pinnedBytes: options.pinnedBytes }),
      region: 'fra1',
      memoryCacheBytes: options.memoryCacheBytes ?? 8 * 1024 * 1024,
      requestLog,
      resolver: createDatabaseResolver({ ...repositories, region: 'fra1', publicUrl: () => 'https://media.example' }),
      logger,
    });
  let delivery = build(options);
  const sources = new Map<string, string>();

  return {
    ...{ url, port, requestLog, repositories, databaseFile, folder, server, store, logged },
    get delivery() {
      return delivery;
    },
    async restart(changed = {}) {
      await delivery.stop();
      delivery = build({ ...options, ...changed });
    },
    get remote() {
      if (remote === null) throw new Error('This delivery has its objects beside it.');
      return remote;
    },

    async addMedia(renditions, state = 'ready') {
      const id = `med_${ulid().toLowerCase()}`;
      const source = sha256(Buffer.from(id));
      sources.set(id, source);
      await repositories.media.accept(newMedia(id, source), { duplicate: 'existing', idempotencyKey: null });
      if (state === 'queued') return id;
      const lease = await repositories.jobs.claim('fixture');
      if (lease?.mediaId !== id) throw new Error('The queue held another media object.');
      const rows: Omit<RenditionRecord, 'mediaId' | 'updatedAtMs'>[] = [];
      for (const rendition of renditions) {
        const { name, extension, contentType, content, revision = REVISION } = rendition;
        const key = renditionKey({ sourceSha256: source, name, revision, extension });
        const rowState = rendition.state ?? (state === 'ready' ? 'ready' : 'pending');
        const ready = rowState === 'ready';
        if (content !== null && ready) {
          const staged = join(folder, ulid());
          await writeFile(staged, content);
          const { pieces } = await hashFile(staged);
          if (pieces !== null && options.pieceDigests !== 'unknown')
            await repositories.pieceDigests.put(sha256(content), pieces);
          await store.put(key, { path: staged, bytes: content.length, sha256: sha256(content) });
        }
        rows.push({
          ...{ name, extension, contentType, revision, current: true, state: rowState },
          reason: rendition.reason ?? null,
          objectKey: rowState === 'skipped' ? null : key,
          sha256: ready ? sha256(content ?? Buffer.from('missing')) : null,
          bytes: ready ? (content?.length ?? 7) : null,
          files: ready ? 1 : null,
          width: rendition.width ?? 320,
          height: 200,
        });
      }
      await repositories.media.start(
        lease,
        rows.map((row) => (row.state === 'skipped' ? row : { ...row, state: 'pending', sha256: null, bytes: null })),
      );
      if (state === 'ready')
        await repositories.media.publish(lease, { renditions: rows, thumbhash: 'YJqGPQw7', warnings: [] });
      if (state === 'failed') {
        await repositories.media.fail(lease, { code: 'corrupt_media', message: 'It is damaged.', retryable: false });
      }
      return id;
    },

    async objectFile(mediaId, { name, extension, revision = REVISION }) {
      const sourceSha256 = sources.get(mediaId) ?? '';
      return join(root, renditionKey({ sourceSha256, name, revision, extension }));
    },

    get(path, headers = {}, method = 'GET') {
      return new Promise((resolve, reject) => {
        const outgoing = request({ host: '127.0.0.1', port, path, method, headers, agent: false }, (incoming) => {
          const chunks: Buffer[] = [];
          incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
          incoming.on('error', reject);
          incoming.on('end', () =>
            resolve({
              status: incoming.statusCode ?? 0,
              headers: incoming.headers,
              rawHeaders: incoming.rawHeaders,
              body: Buffer.concat(chunks),
            }),
          );
        });
        outgoing.on('error', reject);
        outgoing.end();
      });
    },

    raw(bytes) {
      return new Promise((resolve, reject) => {
        const chunks: Buffer[] = [];
        const socket = connect(port, '127.0.0.1', () => socket.write(bytes, 'latin1'));
        socket.on('data', (chunk) => chunks.push(chunk));
        socket.on('error', reject);
        socket.on('close', () => resolve(Buffer.concat(chunks).toString('latin1')));
      });
    },

    async assets() {
      await requestLog.flush();
      return repositories.assets.latest({ limit: 100, region: null });
    },

    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await delivery.stop();
      await remote?.close();
      await requestLog.stop();
      await repositories.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function newMedia(id: string, sha: string): NewMedia {
  return {
    ...{ id, projectId: 'default', createdAtMs: Date.now(), contentType: 'image/jpeg', bytes: 1000 },
    ...{ width: 4000, height: 3000, filename: 'photo.jpg', sha256: sha, kind: 'image', format: 'jpeg' },
    ...{ durationMs: null, codecs: ['jpeg'], warnings: [], identified: {} },
  };
}
