import type { Engine, Preset } from '@mds/transcode';
import { createKeyedLock, type KeyedLock } from './base/keyed-lock.ts';
import type { Logger } from './base/logger.ts';
import { createTeardown, startAll } from './base/teardown.ts';
import type { Config } from './config.ts';
import type { Repositories } from './db/repositories.ts';
import { composeEngine, loadPresets } from './processing/compose.ts';
import { openStorage } from './storage/compose.ts';
import { type DataDir, type DataDirUse, openDataDir } from './storage/data-dir.ts';
import type { ObjectStore } from './storage/object-store.ts';
import type { StorageBinding } from './storage/storage-binding.ts';

/** The database, store, queue and engine of the service and its workers. Nothing above it knows which ones they are. */
export interface Foundation {
  dataDir: DataDir;
  repositories: Repositories;
  store: ObjectStore;
  /** Whether the store is on other machines, so that delivery should cache what it reads often. */
  isStoreRemote: boolean;
  /** Whether the store belongs to the database. */
  storageBinding: StorageBinding;
  /** Serializes work on one original across all nodes; keys are SHA-256 hashes. */
  originalsLock: KeyedLock;
  engine: Engine;
  presets: readonly Preset[];
  /** Closes everything but the engine, and releases the data folder. */
  close(): Promise<void>;
}

/**
 * Opens the data folder, the configured database and the configured store, and makes the engine. If that fails, the data folder is
 * released again.
 * @param use.scratch as in {@link DataDirUse}
 * @throws ConfigError, DataDirError, DatabaseRefusedError, ObjectStorageError: the operator must act
 */
export async function layFoundation(
  config: Config,
  logger: Logger,
  use: Pick<DataDirUse, 'scratch'> = {},
): Promise<Foundation> {
  const presets = await loadPresets(config);
  const dataDir = await openDataDir(config.dataDir, {
    exclusive: config.roles.includes('api'),
    database: config.databaseUrl === null,
    objects: config.storageUrl === null,
    ...use,
  });
  const teardown = createTeardown('the database or the store');
  teardown.add(() => dataDir.release());
  return startAll(teardown, logger, async () => {
    const storage = await openStorage(config, dataDir, logger);
    teardown.add(() => storage.close());
    const repositories = await openRepositories(config, dataDir, logger);
    teardown.add(() => repositories.close());
    const { store, binding: storageBinding } = await storage.bindTo(repositories.deployment);
    teardown.add(() => storageBinding.close());
    const originalsLock = await openOriginalsLock(config, logger);
    teardown.add(() => originalsLock.close());
    const isStoreRemote = config.storageUrl !== null;
    const engine = composeEngine(config, logger);
    return {
      ...{ dataDir, repositories, store, isStoreRemote, storageBinding, originalsLock, engine, presets },
      close: teardown.run,
    };
  });
}

/** Only the configured driver is loaded: each costs a start more than the rest of this file. */
async function openRepositories(config: Config, dataDir: DataDir, logger: Logger): Promise<Repositories> {
  if (config.databaseUrl !== null) return openSharedRepositories(config.databaseUrl, config, logger);
  const { openSqliteRepositories } = await import('./db/sqlite/open-repositories.ts');
  return openSqliteRepositories(dataDir.databaseFile);
}

/**
 * The PostgreSQL database that nodes share, with the configured queue. Both are migrated first.
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

/** In PostgreSQL if other nodes share the database; they may ingest or remove the same original. */
async function openOriginalsLock(
  { databaseUrl }: Config,
  logger: Logger,
): Promise<KeyedLock & { close(): Promise<void> }> {
  if (databaseUrl === null) return { ...createKeyedLock(), close: async () => undefined };
  const { createPostgresKeyedLock } = await import('./db/postgres/keyed-lock.ts');
  const { databaseSettings } = await import('./db/postgres/settings.ts');
  return createPostgresKeyedLock({ connection: databaseSettings(databaseUrl).connection, logger });
}
