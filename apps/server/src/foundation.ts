import { readFile } from 'node:fs/promises';
import { createEngine, defaultPresets, type Engine, type Preset, parsePresets } from '@mds/transcode';
import { createKeyedLock, type KeyedLock } from './base/keyed-lock.ts';
import type { Logger } from './base/logger.ts';
import { type Config, ConfigError } from './config.ts';
import { type DataDir, type DataDirUse, openDataDir } from './data-dir.ts';
import type { Deployment } from './db/deployment.ts';
import type { Repositories } from './db/repositories.ts';
import type { ObjectOrigin } from './delivery/object-origin.ts';
import type { ObjectStore } from './storage/object-store.ts';
import { ALWAYS_BOUND, bindStorage, onceBound, type StorageBinding } from './storage/storage-binding.ts';

/** What the service and its workers stand on: nothing above it knows which database, store and queue it is. */
export interface Foundation {
  dataDir: DataDir;
  repositories: Repositories;
  store: ObjectStore;
  /** Whether the store is on other machines, so that what is read often is worth keeping here. */
  isStoreRemote: boolean;
  /** Whether the store is that of the database. */
  storageBinding: StorageBinding;
  /** Where delivery reads objects. */
  origin: ObjectOrigin;
  /** Has what is done about one original done one after another, by whichever node; keys are SHA-256 hashes. */
  originalsLock: KeyedLock;
  engine: Engine;
  presets: readonly Preset[];
  /** Ends all of it but the engine, and lets go of the data folder. */
  close(): Promise<void>;
}

/**
 * Opens the data folder, the database and the store that are configured, and makes the engine.
 * @param use.scratch as {@link DataDirUse} has it
 * @throws ConfigError, DataDirError, DatabaseRefusedError, ObjectStorageError: what the operator must see to; the data folder is let go
 * of again
 */
export async function layFoundation(
  config: Config,
  logger: Logger,
  use: Pick<DataDirUse, 'scratch'> = {},
): Promise<Foundation> {
  const presets = config.presetsFile === null ? defaultPresets : await readPresets(config.presetsFile);
  const dataDir = await openDataDir(config.dataDir, {
    exclusive: config.roles.has('api'),
    database: config.databaseUrl === null,
    objects: config.storageUrl === null,
    ...use,
  });
  /** Run in reverse order. */
  const undo: (() => Promise<unknown>)[] = [() => dataDir.release()];
  const close = async () => {
    const errors: unknown[] = [];
    for (const step of undo.splice(0).reverse()) await step().catch((error: unknown) => errors.push(error));
    if (errors.length > 0) throw new AggregateError(errors, 'the database or the store did not close in good order');
  };
  try {
    const storage = await openStorage(config, dataDir, logger);
    undo.push(async () => storage.close());
    const repositories = await openRepositories(config, dataDir, logger);
    undo.push(() => repositories.close());
    const storageBinding = await storage.bindTo(repositories.deployment);
    undo.push(async () => storageBinding.close());
    const originalsLock = await openOriginalsLock(config, logger);
    undo.push(() => originalsLock.close());
    const engine = createEngine({
      limits: { maxPixels: config.maxPixels, maxFrames: config.maxFrames, maxDurationS: config.maxDurationS },
      concurrency: config.workerConcurrency,
      renderThreads: config.renderThreads ?? undefined,
      programs: { ffmpeg: config.ffmpegPath ?? undefined, ffprobe: config.ffprobePath ?? undefined },
      onChildExit: (exit) => {
        if (exit.reason !== 'recycled' && exit.reason !== 'stopped') {
          const { pid: childPid, ...how } = exit;
          logger.warn({ childPid, ...how }, 'an engine child died');
        }
      },
    });
    const { origin } = storage;
    const store = onceBound(storage.store, storageBinding);
    const isStoreRemote = config.storageUrl !== null;
    return {
      ...{ dataDir, repositories, store, isStoreRemote, storageBinding, origin, originalsLock, engine, presets },
      close,
    };
  } catch (error) {
    await close().catch((cause: unknown) => logger.error({ err: cause }, 'a part did not close after a failed start'));
    throw error;
  }
}

/** What is not configured is not loaded: the drivers of the others cost a start more than all the rest. */
async function openRepositories(config: Config, dataDir: DataDir, logger: Logger): Promise<Repositories> {
  if (config.databaseUrl !== null) return openSharedRepositories(config.databaseUrl, config, logger);
  const { openSqliteRepositories } = await import('./db/sqlite/open-repositories.ts');
  return openSqliteRepositories(dataDir.databaseFile);
}

/**
 * The PostgreSQL database that nodes share, and what hands out its jobs, both brought up to date.
 * @throws DatabaseRefusedError, ConfigError
 */
export async function openSharedRepositories(
  url: string,
  { queue, queueUrl }: Pick<Config, 'queue' | 'queueUrl'>,
  logger: Logger,
): Promise<Repositories> {
  const { openPostgresRepositories } = await import('./db/postgres/open-repositories.ts');
  const repositories = await openPostgresRepositories(url, { logger });
  if (queue === 'embedded') return repositories;
  try {
    const { openBullQueue } = await import('./jobs/bullmq/open-bull-queue.ts');
    return await openBullQueue({ url, redis: queueUrl === null ? undefined : { url: queueUrl }, repositories, logger });
  } catch (error) {
    await repositories.close();
    throw error;
  }
}

/** Over all processes where others may take in, or remove, what this one does. */
async function openOriginalsLock(config: Config, logger: Logger): Promise<KeyedLock & { close(): Promise<void> }> {
  if (config.databaseUrl === null) return { ...createKeyedLock(), close: async () => undefined };
  const { createPostgresKeyedLock } = await import('./db/postgres/keyed-lock.ts');
  const { databaseSettings } = await import('./db/postgres/settings.ts');
  return createPostgresKeyedLock({ connection: databaseSettings(config.databaseUrl).connection, logger });
}

async function openStorage(
  config: Config,
  dataDir: DataDir,
  logger: Logger,
): Promise<{
  store: ObjectStore;
  origin: ObjectOrigin;
  bindTo(deployment: Deployment): Promise<StorageBinding>;
  close(): void;
}> {
  if (config.storageUrl === null) {
    const { createLocalObjectStore } = await import('./storage/local-object-store.ts');
    const { createLocalObjectOrigin } = await import('./delivery/cache/origin/local-object-origin.ts');
    const root = dataDir.objectsDir;
    return {
      store: createLocalObjectStore({ root }),
      origin: createLocalObjectOrigin({ root }),
      bindTo: async () => ALWAYS_BOUND,
      close: () => undefined,
    };
  }
  const { openS3ObjectStore } = await import('./storage/s3-object-store.ts');
  const { createStoredObjectOrigin } = await import('./delivery/cache/origin/stored-object-origin.ts');
  const store = await openS3ObjectStore({
    url: config.storageUrl,
    endpoint: config.s3Endpoint,
    scratchDir: dataDir.scratchDir,
    logger,
  });
  return {
    store,
    origin: createStoredObjectOrigin({ store }),
    bindTo: (deployment) => bindStorage({ deployment, store, shown: config.storageUrl ?? '', logger }),
    close: () => store.close(),
  };
}

async function readPresets(file: string): Promise<readonly Preset[]> {
  let json: unknown;
  try {
    json = JSON.parse(await readFile(file, 'utf8'));
  } catch (error) {
    throw new ConfigError([`MDS_PRESETS: ${file} cannot be read as JSON: ${(error as Error).message}`]);
  }
  try {
    return parsePresets(json);
  } catch (error) {
    throw new ConfigError([`MDS_PRESETS: ${file}: ${(error as Error).message}`]);
  }
}
