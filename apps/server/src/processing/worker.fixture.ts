import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { createEngine, type Engine, parsePresets, type RenderJob } from '@mds/transcode';
import { afterAll, afterEach, beforeEach, expect } from 'vitest';
import { createKeyedLock } from '../base/keyed-lock.ts';
import { createLogger } from '../base/logger.ts';
import type { MediaRecord, RenditionRecord } from '../db/media-repository.ts';
import type { Repositories } from '../db/repositories.ts';
import { openSqliteRepositories } from '../db/sqlite/open-repositories.ts';
import { createIngest, type Ingest } from '../ingest/ingest.ts';
import { createMediaRemoval, type MediaRemoval } from '../ingest/media-removal.ts';
import { createPieceWriting } from '../ingest/piece-writing.ts';
import { createStagingSpace } from '../ingest/staging-space.ts';
import { createLocalObjectStore } from '../storage/local-object-store.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import { createWorker, type Worker, type WorkerParts, type WorkerTiming } from './worker.ts';

const logger = createLogger('silent');
/** Quick to render, so that tests are about the worker and not about encoders. */
export const presets = parsePresets([
  { name: 'thumb', container: 'webp', width: 32, height: 32 },
  { name: 'small', container: 'jpeg', width: 48, height: 48 },
]);

/** Short intervals, so that tests do not wait for the worker. */
export const QUICK: WorkerTiming = { heartbeatMs: 50, pollMs: 50, progressMs: 20, retryMs: 5, storagePauseMs: 50 };

/** The result of a render by the engine. */
export type Rendering = ReturnType<Engine['render']>;

/** A worker over a real engine, a real store and a real database, fresh for each test. */
export interface WorkerFixture {
  /** The same for all tests of a file. */
  readonly engine: Engine;
  /** Holds everything, and is removed after the test. */
  readonly root: string;
  readonly scratchDir: string;
  readonly repositories: Repositories;
  readonly store: ObjectStore;
  /** The worker: `add` wakes it, and the end of the test stops it. */
  worker: Worker | null;
  /** Parts of each worker: concurrency 1, `QUICK` and `presets`. */
  parts(): WorkerParts;
  startWorker(overrides?: Partial<WorkerParts>): Worker;
  /** Uploads a file, as a client does. */
  add(file: Buffer): Promise<MediaRecord>;
  /** Waits for a media object's status: `await ended(id).toBe('ready')`. */
  ended(id: string): ReturnType<typeof expect.poll>;
  /** The rendition that a path without a revision delivers. */
  rendition(mediaId: string, name: string, extension: string): Promise<RenditionRecord | null>;
  /** Keys of the objects in the store, sorted. */
  keys(prefix?: string): Promise<string[]>;
  /** The engine with code around each of its renders. */
  around(
    render: (job: RenderJob, go: (changed?: Partial<RenderJob>) => Rendering) => Rendering,
  ): Pick<Engine, 'identify' | 'render'>;
  /** Removes media and their objects, as the service does. */
  removal(): MediaRemoval;
}

/** Prepares each test of the file that calls it, and cleans up after it. */
export function workerFixture(): WorkerFixture {
  const engine = createEngine({ concurrency: 2 });
  afterAll(() => engine.stop());
  const lock = createKeyedLock();
  let root: string;
  let scratchDir: string;
  let repositories: Repositories;
  let store: ObjectStore;
  let ingest: Ingest;
  let worker: Worker | null;

  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'mds-worker-'));
    scratchDir = join(root, 'scratch');
    await mkdir(join(root, 'staging'));
    await mkdir(scratchDir);
    repositories = openSqliteRepositories(join(root, 'mds.sqlite'));
    store = createLocalObjectStore({ root: join(root, 'objects') });
    ingest = createIngest({
      media: repositories.media,
      store,
      engine,
      lock,
      stagingDir: join(root, 'staging'),
      space: createStagingSpace({ folder: join(root, 'staging'), maxBytes: 0, minFreeBytes: 0 }),
      writing: createPieceWriting(),
      maxUploadBytes: 50_000_000,
      logger,
      onAccepted: () => worker?.wake(),
    });
    worker = null;
  });
  afterEach(async () => {
    await worker?.stop({ graceMs: 0 });
    await repositories.close();
    await rm(root, { recursive: true });
  });

  const parts = (): WorkerParts => {
    const { jobs, media, pieceDigests } = repositories;
    return {
      ...{ id: 'w1', host: 'vm', region: 'fra1', jobs, media, pieceDigests, store, engine, presets },
      ...{ scratchDir, concurrency: 1, logger, timing: QUICK },
    };
  };

  return {
    engine,
    get root() {
      return root;
    },
    get scratchDir() {
      return scratchDir;
    },
    get repositories() {
      return repositories;
    },
    get store() {
      return store;
    },
    get worker() {
      return worker;
    },
    set worker(other) {
      worker = other;
    },

    parts,
    startWorker(overrides = {}) {
      worker = createWorker({ ...parts(), ...overrides });
      worker.start();
      return worker;
    },

    async add(file) {
      const { media } = await ingest.ingest({
        projectId: 'default',
        body: Readable.from([file]),
        filename: null,
        idempotencyKey: null,
        duplicate: 'existing',
        declaredBytes: null,
      });
      return media;
    },

    ended: (id) =>
      expect.poll(async () => (await repositories.media.find(id))?.status, { interval: 10, timeout: 15_000 }),
    rendition: (mediaId, name, extension) =>
      repositories.media.findRendition({ mediaId, name, extension, revision: null }),

    async keys(prefix = '') {
      const found: string[] = [];
      for await (const { key } of store.list(prefix)) found.push(key);
      return found.sort();
    },

    around: (render) => ({
      identify: engine.identify,
      render: (job, options) => render(job, (changed) => engine.render({ ...job, ...changed }, options)),
    }),

    removal: () => createMediaRemoval({ media: repositories.media, store, lock, onRemoved: () => undefined, logger }),
  };
}
