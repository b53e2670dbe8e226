import { randomBytes } from 'node:crypto';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { defaultPresets } from '@mds/transcode';
import { pino } from 'pino';
import { type AppParts, createApp } from '../../src/app.ts';
import { AppError } from '../../src/base/app-error.ts';
import { hashToken } from '../../src/control-api/authenticate.ts';
import type { NewMedia } from '../../src/db/media-repository.ts';
import type { Repositories } from '../../src/db/repositories.ts';
import { openSqliteRepositories } from '../../src/db/sqlite/open-repositories.ts';
import { createDatabaseResolver } from '../../src/delivery/database-resolver.ts';
import type { PurgeScope } from '../../src/delivery/purge-scope.ts';
import { createEventStream } from '../../src/events/event-stream.ts';
import type { IngestInput } from '../../src/ingest/ingest.ts';
import type { DeliveryPart } from '../../src/listener/delivery-plane.ts';
import { createHttpServer, type RequestHandler } from '../../src/listener/http-server.ts';
import { createMetrics } from '../../src/listener/metrics.ts';
import { createRequestListener, type RequestListenerParts } from '../../src/listener/request-listener.ts';
import { createRegionMonitor } from '../../src/regions/region-monitor.ts';
import { resolveRegion } from '../../src/regions/region-setting.ts';
import { createStatusBoard } from '../../src/status/status-board.ts';

/** Tokens of the fixture by scope. */
export const TOKENS = {
  operate: 'operator-of-the-default-project',
  ingest: 'uploader-of-the-default-project',
  other: 'operator-of-another-project',
} as const;

/** The maximum size of the fixture's ingest. */
export const MAX_UPLOAD_BYTES = 40_000_000;

/** The app over a real database in memory and a real socket. A few lines replace codecs and disks. */
export interface AppFixture {
  url: string;
  port: number;
  server: Server;
  repositories: Repositories;
  /** Every line that was logged. */
  log: Record<string, unknown>[];
  /** Calls of the ingest, with complete bodies. */
  ingested: { input: Omit<IngestInput, 'body' | 'signal'>; body: Buffer }[];
  woken: number;
  /** Purges that delivery received. */
  purged: PurgeScope[];
  /** The reason why it is not ready; null: ready. */
  notReady: string | null;
  get(path: string, init?: RequestInit): Promise<Response>;
  control(path: string, init?: RequestInit & { token?: string }): Promise<Response>;
  addMedia(media?: Partial<NewMedia>): Promise<string>;
  stop(): Promise<void>;
}

let counter = 0;

/** Makes an id of a media object. Later calls return greater ids. */
export function mediaId(): string {
  counter += 1;
  return `med_01k0c4s6q8y2v4w6x8${counter.toString().padStart(8, '0')}`;
}

/** Starts the app on a free port. */
export async function startApp(
  overrides: {
    delivery?: Partial<DeliveryPart>;
    read?: Partial<NonNullable<AppParts['read']>>;
    control?: Partial<NonNullable<AppParts['control']>>;
    listener?: Partial<RequestListenerParts>;
    fetches?: Partial<NonNullable<AppParts['control']>['fetches']>;
    /** The heartbeat and check interval of nodes, in milliseconds. */
    beats?: { intervalMs: number; checkMs: number };
    /** Gets the requests that reach Express. */
    aroundApp?: (app: RequestHandler) => RequestHandler;
  } = {},
): Promise<AppFixture> {
  const repositories = openSqliteRepositories(':memory:');
  const { media, projects, assets, regions, jobs, events } = repositories;
  await projects.put({ id: 'other', name: 'Other', hosts: ['other.test'] });
  const token = (text: string, scope: 'ingest' | 'operate', projectId = 'default') =>
    projects.putToken({ sha256: hashToken(text), name: text, projectId, scope });
  await token(TOKENS.operate, 'operate');
  await token(TOKENS.ingest, 'ingest');
  await token(TOKENS.other, 'operate', 'other');

  const log: Record<string, unknown>[] = [];
  const logger = pino({ level: 'debug' }, { write: (line: string) => log.push(JSON.parse(line)) });
  const region = resolveRegion('fra1');
  const regionMonitor = createRegionMonitor({ regions, self: region, nodeId: 'test', logger, ...overrides.beats });
  await regionMonitor.start();
  const statusBoard = createStatusBoard({ probes: [], regionMonitor, region, logger });
  await statusBoard.tick();

  const addMedia = async (changes: Partial<NewMedia> = {}) => {
    const record: NewMedia = {
      id: mediaId(),
      projectId: 'default',
      createdAtMs: Date.parse('2026-01-31T08:15:00.987Z'),
      contentType: 'image/png',
      bytes: 1234,
      width: 640,
      height: 480,
      filename: 'a.png',
      sha256: randomBytes(32).toString('hex'),
      kind: 'image',
      format: 'png',
      durationMs: null,
      codecs: ['png'],
      warnings: [],
      identified: {},
      ...changes,
    };
    await media.accept(record, { duplicate: 'allow', idempotencyKey: null });
    return record.id;
  };

  const fixture = {
    woken: 0,
    purged: [] as AppFixture['purged'],
    notReady: null as string | null,
    ingested: [] as AppFixture['ingested'],
  };
  const eventStream = createEventStream({ events, jobs, logger });
  await eventStream.start();
  const metrics = createMetrics({ deliveries: null, queue: () => jobs.counts(), workers: null, ingest: null });
  const { pieceDigests } = repositories;
  const resolverFor = (baseUrl: string) =>
    createDatabaseResolver({ media, pieceDigests, region: region.code, publicUrl: () => baseUrl });
  const app = createApp({
    logger,
    metrics,
    publicUrl: () => 'https://media.example.test',
    notReady: async () => fixture.notReady,
    read: {
      media,
      assets,
      regions,
      projects,
      regionMonitor,
      statusBoard,
      formats: { accepted: async () => [] },
      presets: defaultPresets,
      ...overrides.read,
    },
    control: {
      media,
      jobs,
      presets: defaultPresets,
      hidden: {},
      events: eventStream,
      projects,
      fetches: {
        fetches: repositories.fetches,
        runner: { wake: () => undefined, canceled: () => undefined, settled: async () => null },
        ...overrides.fetches,
      },
      removal: { remove: async (id) => (await media.delete(id)) !== null },
      verifier: {
        verify: async ({ id, filename }, { repair }) => ({
          id,
          filename,
          checked_bytes: 0,
          original: 'missing',
          renditions: [],
          repair: repair ? 'queued' : 'needs_original',
        }),
      },
      wakeWorkers: () => {
        fixture.woken += 1;
      },
      queueLimit: { requireRoom: async () => undefined },
      rateLimit: 0,
      regions: { regions, regionMonitor, events, regionsChanged: () => statusBoard.refreshRegions() },
      cache: {
        ...{ media, events, regionMonitor, resolver: resolverFor('') },
        delivery: { purge: (scope) => void fixture.purged.push(scope) },
      },
      migrations: {
        migration: null,
        s3Endpoint: null,
        openDestination: async () => Promise.reject(new Error('nothing moves here')),
      },
      writes: { enter: () => () => undefined, isClosedForGood: false },
      edges: {
        ...{ regions, assets, regionMonitor },
        keptAssets: 100,
        events: eventStream,
        resolverFor,
        delivery: { handleObject: async (_req, res, path) => void res.end(`the bytes of ${path}`) },
      },
      uploads: { serve: async (_req, res) => void res.end() },
      uploadOrigins: [],
      ingest: {
        async ingest({ body, signal: _signal, ...input }) {
          if ((input.declaredBytes ?? 0) > MAX_UPLOAD_BYTES) {
            throw new AppError('payload_too_large', 'The file is larger than what is accepted here.');
          }
          const bytes = await buffer(body);
          fixture.ingested.push({ input, body: bytes });
          const id = await addMedia({ projectId: input.projectId, filename: input.filename, bytes: bytes.length });
          const record = await media.find(id);
          if (!record) throw new Error('the media object that was just added is gone');
          return { media: record, created: true };
        },
      },
      ...overrides.control,
    },
  });
  const delivery: DeliveryPart | null = overrides.delivery
    ? {
        answerFromMemory: () => null,
        refresh: () => false,
        handle: async (_req, res) => {
          res.end();
        },
        ...overrides.delivery,
      }
    : null;
  const { versions } = repositories;
  const aroundApp = overrides.aroundApp ?? ((inner: RequestHandler) => inner);
  const server = createHttpServer(
    createRequestListener({ app: aroundApp(app), delivery, versions, metrics, logger, ...overrides.listener }),
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;

  return Object.assign(fixture, {
    url,
    port,
    server,
    repositories,
    log,
    addMedia,
    get: (path: string, init?: RequestInit) => fetch(url + path, { redirect: 'manual', ...init }),
    control: (path: string, { token: text = TOKENS.operate, ...init }: RequestInit & { token?: string } = {}) =>
      fetch(`${url}/control/v1${path}`, {
        ...init,
        headers: { ...(init.headers as Record<string, string>), authorization: `Bearer ${text}` },
      }),
    async stop() {
      await eventStream.stop();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await regionMonitor.stop();
      await repositories.close();
    },
  });
}
