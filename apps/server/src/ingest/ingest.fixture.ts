import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { createEngine, type Engine } from '@mds/transcode';
import { afterAll, afterEach, beforeEach, expect } from 'vitest';
import { AppError } from '../base/app-error.ts';
import { createKeyedLock, type KeyedLock } from '../base/keyed-lock.ts';
import { createLogger } from '../base/logger.ts';
import type { Repositories } from '../db/repositories.ts';
import { openSqliteRepositories } from '../db/sqlite/open-repositories.ts';
import { createLocalObjectStore } from '../storage/local-object-store.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import { createIngest, type Ingest, type IngestInput, type IngestParts } from './ingest.ts';
import { createMediaRemoval, type MediaRemoval, type MediaRemovalParts } from './media-removal.ts';
import { createPieceWriting } from './piece-writing.ts';
import { createRemovalSweep, type RemovalSweep, type RemovalSweepParts } from './removal-sweep.ts';
import { createStagingSpace } from './staging-space.ts';

const logger = createLogger('silent');

/** An ingest over a real engine, a real store and a real database, fresh for each test. */
export interface IngestFixture {
  /** The same for all tests of a file. */
  readonly engine: Engine;
  /** Holds the folders `staging` and `objects`, and is removed after the test. */
  readonly root: string;
  readonly repositories: Repositories;
  readonly store: ObjectStore;
  /** Ids of the media that were announced to workers. */
  readonly accepted: string[];
  /** Accepts up to 2,000,000 bytes. */
  makeIngest(overrides?: Partial<IngestParts>): Ingest;
  makeRemoval(overrides?: Partial<MediaRemovalParts>): MediaRemoval;
  makeSweep(overrides?: Partial<RemovalSweepParts>): RemovalSweep;
  /** Keys of the objects in the store. */
  objects(): Promise<string[]>;
  /** Expects no file, object, row or job. */
  expectNothingKept(): Promise<void>;
}

/** Prepares each test of the file that calls it, and cleans up after it. */
export function ingestFixture(): IngestFixture {
  const engine = createEngine();
  afterAll(() => engine.stop());
  let root: string;
  let repositories: Repositories;
  let store: ObjectStore;
  let accepted: string[];
  let lock: ReturnType<typeof createKeyedLock>;

  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'mds-ingest-'));
    await mkdir(join(root, 'staging'));
    repositories = openSqliteRepositories(':memory:');
    store = createLocalObjectStore({ root: join(root, 'objects') });
    accepted = [];
    lock = createKeyedLock();
  });
  afterEach(async () => {
    await repositories.close();
    await rm(root, { recursive: true });
  });

  const objects = async () => {
    const keys: string[] = [];
    for await (const { key } of store.list('')) keys.push(key);
    return keys;
  };

  return {
    engine,
    get root() {
      return root;
    },
    get repositories() {
      return repositories;
    },
    get store() {
      return store;
    },
    get accepted() {
      return accepted;
    },

    makeIngest: (overrides = {}) =>
      createIngest({
        media: repositories.media,
        store,
        engine,
        lock,
        stagingDir: join(root, 'staging'),
        space: createStagingSpace({ folder: join(root, 'staging'), maxBytes: 0, minFreeBytes: 0 }),
        writing: createPieceWriting(),
        maxUploadBytes: 2_000_000,
        logger,
        onAccepted: ({ id }) => accepted.push(id),
        ...overrides,
      }),
    makeRemoval: (overrides = {}) =>
      createMediaRemoval({
        media: repositories.media,
        store,
        lock,
        onRemoved: () => undefined,
        logger,
        ...overrides,
      }),
    makeSweep: (overrides = {}) =>
      createRemovalSweep({
        contentRemovals: repositories.contentRemovals,
        media: repositories.media,
        store,
        lock,
        isMoving: () => false,
        logger,
        ...overrides,
      }),
    objects,

    async expectNothingKept() {
      expect(await readdir(join(root, 'staging')), 'staging').toEqual([]);
      expect(await objects(), 'objects').toEqual([]);
      expect(await repositories.media.page({ projectId: 'default', limit: 10, before: null }), 'media').toEqual([]);
      expect(await repositories.jobs.counts(), 'jobs').toMatchObject({ queued: 0 });
    },
  };
}

/** An upload as a route passes it on. */
export const input = (body: Buffer | Readable, overrides: Partial<IngestInput> = {}): IngestInput => ({
  projectId: 'default',
  body: Buffer.isBuffer(body) ? Readable.from([body]) : body,
  filename: 'picture.png',
  idempotencyKey: null,
  duplicate: 'existing',
  declaredBytes: null,
  ...overrides,
});

export const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

/** The store with slow deletes, so that each order of events gets its chance. */
export function deletingSlowly(store: ObjectStore, ms: number): ObjectStore {
  return {
    ...store,
    async delete(key) {
      await new Promise((resolve) => setTimeout(resolve, ms));
      await store.delete(key);
    },
  };
}

/**
 * A lock over all nodes that is lost.
 * @param lost aborts when the lock is lost
 * @param signalled with `never`, only `confirm` reveals the loss
 */
export const lossyLock = (lost: AbortSignal, signalled: 'at once' | 'never' = 'at once'): KeyedLock => ({
  run: (_, task) =>
    task(signalled === 'at once' ? lost : new AbortController().signal, async () => {
      if (lost.aborted) throw new AppError('unavailable', 'The lock was lost.');
    }),
});
