import { join, resolve } from 'node:path';
import { createLogger } from './base/logger.ts';
import { ConfigError } from './base/settings.ts';
import type { Config } from './config.ts';
import type { SchemaState } from './db/migrations.ts';
import { openSharedRepositories } from './foundation.ts';
import { DATABASE_FILE, openDataDir } from './storage/data-dir.ts';

/** The schema of a database; `applied` are the steps that it had before. */
export interface SchemaReport extends SchemaState {
  /** The steps that were applied now. */
  migrated: string[];
}

/**
 * Migrates the configured database as a start does, but starts nothing. Operators do this, or check it, before they replace nodes. Any
 * number of processes may do so at once. A database in a data folder is not changed while a service uses the folder.
 * @param options.checkOnly reports the pending steps, and writes nothing
 * @throws ConfigError, DataDirError, DatabaseRefusedError: the operator must act
 */
export async function migrateDatabase(config: Config, options: { checkOnly: boolean }): Promise<SchemaReport> {
  if (config.roles.every((role) => role === 'edge')) {
    throw new ConfigError([
      'MDS_ROLES: a point of presence (edge) has no database; migrate the database of its origin',
    ]);
  }
  const before = await inspect(config);
  if (options.checkOnly) return { ...before, migrated: [] };
  await openAndClose(config);
  const { database, pending } = await inspect(config);
  return { database, applied: before.applied, pending, migrated: before.pending };
}

async function inspect(config: Config): Promise<SchemaState> {
  if (config.databaseUrl === null) {
    const { inspectSchema } = await import('./db/sqlite/database.ts');
    return inspectSchema(join(resolve(config.dataDir), DATABASE_FILE));
  }
  const { inspectPostgres } = await import('./db/postgres/open-repositories.ts');
  return inspectPostgres(config.databaseUrl);
}

async function openAndClose(config: Config): Promise<void> {
  if (config.databaseUrl !== null) {
    // BullMQ has no schema in Redis.
    const queue = config.queueUrl === null ? config.queue : 'embedded';
    await (await openSharedRepositories(config.databaseUrl, { queue, queueUrl: null }, createLogger('silent'))).close();
    return;
  }
  const { openDatabase } = await import('./db/sqlite/database.ts');
  const dataDir = await openDataDir(config.dataDir, { exclusive: true });
  try {
    openDatabase(dataDir.databaseFile).$client.close();
  } finally {
    await dataDir.release();
  }
}
