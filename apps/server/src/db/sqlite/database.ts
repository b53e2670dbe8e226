import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type BetterSQLite3Database, drizzle } from 'drizzle-orm/better-sqlite3';
import { migrate } from 'drizzle-orm/better-sqlite3/migrator';
import { DatabaseRefusedError } from '../database-refused-error.ts';
import { readMigrations, type SchemaState, schemaState } from '../migrations.ts';
import { Database } from './driver.ts';

export type SqliteDatabase = BetterSQLite3Database & { $client: Database };

/** Migrations are data and ship as they are, so that `src` and `dist` both use this folder. */
const MIGRATIONS = fileURLToPath(new URL('../../../src/db/sqlite/migrations', import.meta.url));

/** Bytes that the log keeps after a checkpoint: many times what SQLite writes before the next one (1,000 pages). */
const MAX_LOG_BYTES = 64 * 1024 * 1024;

/**
 * Opens the database file, checks it and brings its schema up to date. Never migrates down, never deletes.
 * @throws DatabaseRefusedError if the file is damaged, is no database, or was written by a newer version
 */
export function openDatabase(file: string): SqliteDatabase {
  const isNew = !existsSync(file);
  const client = open(file);
  try {
    // Before anything else: to set the journal mode writes into the file, and a file that is not ours must not change.
    if (!isNew) refuseDamaged(client, file);
    refuseNewer(client, file);
    // WAL with synchronous=FULL: a commit is on disk before it is acknowledged.
    client.pragma('journal_mode = WAL');
    client.pragma('synchronous = FULL');
    client.pragma('foreign_keys = ON');
    client.pragma('cache_size = -65536');
    // A long read keeps the log growing. Without a limit, the file would stay that large for ever.
    client.pragma(`journal_size_limit = ${MAX_LOG_BYTES}`);
    const db = drizzle(client);
    migrate(db, { migrationsFolder: MIGRATIONS });
    return db;
  } catch (error) {
    client.close();
    throw asRefusal(error, file);
  }
}

/**
 * Lists the migrations that the database has had, and those that {@link openDatabase} would apply. Writes nothing. A file that does not
 * exist has had none.
 * @throws DatabaseRefusedError if the file is damaged, is no database, or was written by a newer version
 */
export function inspectSchema(file: string): SchemaState {
  const mine = readMigrations(MIGRATIONS);
  if (!existsSync(file)) return schemaState(file, mine, () => false);
  const client = open(file, { readonly: true });
  try {
    refuseDamaged(client, file);
    refuseNewer(client, file);
    const last = hasMigrations(client) ? lastApplied(client) : 0;
    return schemaState(file, mine, ({ folderMillis }) => folderMillis <= last);
  } catch (error) {
    throw asRefusal(error, file);
  } finally {
    client.close();
  }
}

function open(file: string, options: { readonly?: boolean } = {}): Database {
  try {
    return new Database(file, { timeout: 10_000, ...options });
  } catch (cause) {
    throw new DatabaseRefusedError(`The database file ${file} cannot be opened: ${(cause as Error).message}.`, {
      cause,
    });
  }
}

function asRefusal(error: unknown, file: string): unknown {
  const code = (error as { code?: string }).code ?? '';
  return code === 'SQLITE_NOTADB' || code.startsWith('SQLITE_CORRUPT') ? damaged(file, error) : error;
}

function damaged(file: string, cause?: unknown): DatabaseRefusedError {
  return new DatabaseRefusedError(
    `The database file ${file} is damaged or not a database. Nothing was changed. Put a backup in its place, or move ` +
      'the file away and try `sqlite3 FILE ".recover"` on a copy of it; then start again.',
    { cause },
  );
}

/** Reads the structure of the file. The full content check takes longer with every row, so only small files get it. */
function refuseDamaged(client: Database, file: string): void {
  const pages = client.pragma('page_count', { simple: true }) as number;
  // In a larger file, only the schema and one row of each table must be readable.
  if (pages < 4096) {
    const verdict = client.pragma('quick_check(1)', { simple: true });
    if (verdict !== 'ok') throw damaged(file, verdict);
  }
  const tables = client.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").pluck().all() as string[];
  for (const table of tables) client.prepare(`SELECT * FROM "${table}" LIMIT 1`).get();
}

function refuseNewer(client: Database, file: string): void {
  if (!hasMigrations(client)) {
    const strangers = client.prepare("SELECT count(*) FROM sqlite_schema WHERE type = 'table'").pluck().get() as number;
    if (strangers > 0) {
      throw new DatabaseRefusedError(
        `The database file ${file} belongs to another program. Nothing was changed. Choose another MDS_DATA_DIR.`,
      );
    }
    return;
  }
  const newest = Math.max(...readMigrations(MIGRATIONS).map(({ folderMillis }) => folderMillis));
  if (lastApplied(client) > newest) {
    throw new DatabaseRefusedError(
      `The database file ${file} was written by a newer version of the service. Nothing was changed. Start that version, ` +
        'or a newer one, or put back the backup from before the upgrade.',
    );
  }
}

function hasMigrations(client: Database): boolean {
  return client.prepare("SELECT 1 FROM sqlite_schema WHERE name = '__drizzle_migrations'").get() !== undefined;
}

/**
 * The creation time of the newest applied migration; 0 if there is none. Migrations are applied in this order, without
 * gaps.
 */
function lastApplied(client: Database): number {
  return Number(client.prepare('SELECT max(created_at) FROM __drizzle_migrations').pluck().get() ?? 0);
}

/** Opens a second connection to an open database. It sees committed rows, and can write nothing. */
export function openReader({ $client: writer }: SqliteDatabase): Database {
  const client = new Database(writer.name, { timeout: 10_000 });
  client.pragma('query_only = ON');
  client.pragma('cache_size = -65536');
  return client;
}
