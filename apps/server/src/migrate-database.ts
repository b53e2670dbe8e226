import { join, resolve } from 'node:path';
import { createLogger } from './base/logger.ts';
import { ConfigError } from './base/settings.ts';
import type { Config } from './config.ts';
import type { SchemaState } from './db/migrations.ts';
import { openSharedRepositories } from './foundation.ts';
import { DATABASE_FILE, openDataDir } from './storage/data-dir.ts';

/** What became of a database: `applied` is what it had before. */
export interface SchemaReport extends SchemaState {
  /** The steps that were taken now. */
  migrated: string[];
}

/**
 * Brings the configured database up to date as a start does, and starts nothing: for who wants it done, or to know that it can be, before
 * nodes are replaced. Any number of processes may do so at once. A database in a data folder is not touched while a service lives on it.
 * @param options.checkOnly says what would be done, and writes nothing
 * @throws ConfigError, DataDirError, DatabaseRefusedError: what the operator must see to
 */
export async function migrateDatabase(config: Config, options: { checkOnly: boolean }): Promise<SchemaReport> {
  if (config.roles.every((role) => role === 'edge')) {
    throw new ConfigError([
      'MDS_ROLES: a point of presence (edge) has no database; bring up to date that of its origin',
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
    // In Redis, BullMQ has nothing that could be brought up to date.
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
