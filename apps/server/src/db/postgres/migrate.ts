import { fileURLToPath } from 'node:url';
import type { ClientBase } from 'pg';
import { systemCode } from '../../base/storage-error.ts';
import { DatabaseRefusedError } from '../database-refused-error.ts';
import { type Migration, readMigrations, type SchemaState, schemaState } from '../migrations.ts';
import { ADVISORY_CLASS, MIGRATION_LOCK } from './advisory-locks.ts';
import type { DatabaseSettings } from './settings.ts';

/** Migrations are data and ship as they are, so that `src` and `dist` both use this folder. */
const MIGRATIONS = fileURLToPath(new URL('../../../src/db/postgres/migrations', import.meta.url));
/** We use identity columns, `SKIP LOCKED` and JSON. Older versions get no fixes any more. */
const OLDEST_VERSION = 13;

/**
 * Checks the database and brings its schema up to date, in one transaction. Any number of processes may do so at the same time. Never
 * migrates down, never deletes.
 * @throws DatabaseRefusedError if this program must not use the database
 */
export async function migrate(client: ClientBase, { schema, shown }: DatabaseSettings): Promise<void> {
  await client.query('BEGIN');
  try {
    // Waits for another process's migration as long as that takes.
    await client.query('SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0');
    await client.query('SELECT pg_advisory_xact_lock($1, $2)', [ADVISORY_CLASS, MIGRATION_LOCK]);
    await refuseUnfit(client, shown);
    const mine = readMigrations(MIGRATIONS);
    const applied = await appliedMigrations(client, { mine, schema, shown });
    if (applied === null) {
      // `IF NOT EXISTS` needs the right to create schemas even if the schema exists, and a user need not have it.
      const { rowCount } = await client.query('SELECT 1 FROM pg_namespace WHERE nspname = $1', [schema]);
      if (rowCount === 0) await client.query(`CREATE SCHEMA "${schema}"`);
      await client.query('CREATE TABLE __drizzle_migrations (hash text PRIMARY KEY, created_at bigint NOT NULL)');
    }
    for (const { hash, folderMillis, sql } of mine) {
      if (applied?.has(hash)) continue;
      // The generator writes a schema. The tables are in that of the search path.
      for (const statement of sql) await client.query(statement.replaceAll('"public".', ''));
      await client.query('INSERT INTO __drizzle_migrations (hash, created_at) VALUES ($1, $2)', [hash, folderMillis]);
    }
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK');
    throw lacksRight(error) ? withoutRight(error as Error, { schema, shown }) : error;
  }
}

/** 42501: insufficient_privilege. */
const lacksRight = (error: unknown): boolean => systemCode(error) === '42501';

function withoutRight(error: Error, { schema, shown }: Pick<DatabaseSettings, 'schema' | 'shown'>): Error {
  return new DatabaseRefusedError(
    `The user of MDS_DATABASE_URL lacks a right in the database ${shown} (schema ${schema}): ${error.message}. Nothing was changed. ` +
      'Bring it up to date as a user who may make tables there (mds migrate), and give this one the rights that ' +
      'docs/several-machines.md lists.',
    { cause: error },
  );
}

/**
 * Lists the migrations that the database has had, and those that {@link migrate} would apply. Writes nothing and waits for nothing.
 * @throws DatabaseRefusedError if this program must not use the database
 */
export async function inspectSchema(client: ClientBase, settings: DatabaseSettings): Promise<SchemaState> {
  await refuseUnfit(client, settings.shown);
  const mine = readMigrations(MIGRATIONS);
  const applied = await appliedMigrations(client, { mine, ...settings });
  return schemaState(settings.shown, mine, ({ hash }) => applied?.has(hash) === true);
}

async function refuseUnfit(client: ClientBase, shown: string): Promise<void> {
  const { rows } = await client.query<{ version: number; encoding: string }>(
    `SELECT current_setting('server_version_num')::int / 10000 AS version, current_setting('server_encoding') AS encoding`,
  );
  const [{ version, encoding } = { version: 0, encoding: '' }] = rows;
  if (version < OLDEST_VERSION) {
    throw new DatabaseRefusedError(
      `The database ${shown} is PostgreSQL ${version}. Nothing was changed. PostgreSQL ${OLDEST_VERSION} or newer is needed.`,
    );
  }
  if (encoding !== 'UTF8') {
    throw new DatabaseRefusedError(
      `The database ${shown} keeps text as ${encoding}, which cannot hold every name. Nothing was changed. Create it with ENCODING 'UTF8'.`,
    );
  }
}

/** Hashes of the migrations that were applied; null if there is no table at all. */
async function appliedMigrations(
  client: ClientBase,
  { mine, schema, shown }: { mine: readonly Migration[] } & Pick<DatabaseSettings, 'schema' | 'shown'>,
): Promise<Set<string> | null> {
  const tables = await client.query<{ name: string }>('SELECT tablename AS name FROM pg_tables WHERE schemaname = $1', [
    schema,
  ]);
  const stranger = new DatabaseRefusedError(
    `The database ${shown} (schema ${schema}) belongs to another program. Nothing was changed. Choose another one in ` +
      'MDS_DATABASE_URL, or another schema of it with ?schema=',
  );
  if (!tables.rows.some(({ name }) => name === '__drizzle_migrations')) {
    if (tables.rows.length > 0) throw stranger;
    return null;
  }
  const applied = await client.query<{ hash: string; at: string }>(
    'SELECT hash, created_at AS at FROM __drizzle_migrations ORDER BY created_at',
  );
  // Other programs have such a table, too.
  if (applied.rows[0]?.hash !== mine[0]?.hash) throw stranger;
  const newest = Math.max(...mine.map(({ folderMillis }) => folderMillis));
  if (applied.rows.some(({ at }) => Number(at) > newest)) {
    throw new DatabaseRefusedError(
      `The database ${shown} was written by a newer version of the service. Nothing was changed. Start that version, ` +
        'or a newer one, or put back the backup from before the upgrade.',
    );
  }
  return new Set(applied.rows.map(({ hash }) => hash));
}
