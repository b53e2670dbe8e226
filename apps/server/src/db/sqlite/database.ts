import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { sql } from 'drizzle-orm';
import { type BetterSQLite3Database, drizzle } from 'drizzle-orm/better-sqlite3';
import { migrate } from 'drizzle-orm/better-sqlite3/migrator';
import { readMigrationFiles } from 'drizzle-orm/migrator';
import { DatabaseRefusedError } from '../database-refused-error.ts';
import type { ToldOf, Versions } from '../repositories.ts';
import { Database } from './driver.ts';
import { versions } from './schema.ts';

export type SqliteDatabase = BetterSQLite3Database & { $client: Database };

/** The same folder from `src` and from `dist`: migrations are data and ship as they are. */
const MIGRATIONS = fileURLToPath(new URL('../../../src/db/sqlite/migrations', import.meta.url));

/**
 * Opens the database file, checks it and brings its schema up to date. Never migrates down, never deletes.
 * @param file path, or `:memory:`
 * @throws DatabaseRefusedError where the file is damaged, is no database, or was written by a newer version
 */
export function openDatabase(file: string): SqliteDatabase {
  const isNew = file === ':memory:' || !existsSync(file);
  let client: Database;
  try {
    client = new Database(file, { timeout: 10_000 });
  } catch (cause) {
    throw new DatabaseRefusedError(`The database file ${file} cannot be opened: ${(cause as Error).message}.`, {
      cause,
    });
  }
  try {
    // First of all: setting the journal mode writes into the file, and a file that is not ours is not to be changed.
    if (!isNew) refuseDamaged(client, file);
    refuseNewer(client, file);
    // WAL with synchronous=FULL: a commit is on disk before it is acknowledged.
    client.pragma('journal_mode = WAL');
    client.pragma('synchronous = FULL');
    client.pragma('foreign_keys = ON');
    client.pragma('cache_size = -65536');
    const db = drizzle(client);
    migrate(db, { migrationsFolder: MIGRATIONS });
    return db;
  } catch (error) {
    client.close();
    if (error instanceof DatabaseRefusedError) throw error;
    const code = (error as { code?: string }).code ?? '';
    if (code === 'SQLITE_NOTADB' || code.startsWith('SQLITE_CORRUPT')) throw damaged(file, error);
    throw error;
  }
}

function damaged(file: string, cause?: unknown): DatabaseRefusedError {
  return new DatabaseRefusedError(
    `The database file ${file} is damaged or not a database. Nothing was changed. Put a backup in its place, or move ` +
      'the file away and try `sqlite3 FILE ".recover"` on a copy of it; then start again.',
    { cause },
  );
}

/** Reads the structure of the file without the full content check, whose time grows with the number of rows. */
function refuseDamaged(client: Database, file: string): void {
  const pages = client.pragma('page_count', { simple: true }) as number;
  // The whole check while it is quick; beyond that the schema and one row of each table must be readable.
  if (pages < 4096) {
    const verdict = client.pragma('quick_check(1)', { simple: true });
    if (verdict !== 'ok') throw damaged(file, verdict);
  }
  const tables = client.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").pluck().all() as string[];
  for (const table of tables) client.prepare(`SELECT * FROM "${table}" LIMIT 1`).get();
}

function refuseNewer(client: Database, file: string): void {
  const known = client.prepare("SELECT 1 FROM sqlite_schema WHERE name = '__drizzle_migrations'").get();
  if (!known) {
    const strangers = client.prepare("SELECT count(*) FROM sqlite_schema WHERE type = 'table'").pluck().get() as number;
    if (strangers > 0) {
      throw new DatabaseRefusedError(
        `The database file ${file} belongs to another program. Nothing was changed. Choose another MDS_DATA_DIR.`,
      );
    }
    return;
  }
  const mine = readMigrationFiles({ migrationsFolder: MIGRATIONS });
  const newest = Math.max(...mine.map(({ folderMillis }) => folderMillis));
  const applied = client.prepare('SELECT max(created_at) FROM __drizzle_migrations').pluck().get() as number | null;
  if (applied !== null && Number(applied) > newest) {
    throw new DatabaseRefusedError(
      `The database file ${file} was written by a newer version of the service. Nothing was changed. Start that version, ` +
        'or a newer one, or put back the backup from before the upgrade.',
    );
  }
}

/** Versions that this process has bumped, of whichever database: one too many costs an answer that is made anew. */
let ownWrites = 0;
/** Those of asset records alone. */
let ownAssetWrites = 0;

/** The row of `versions` that only says that the database can be written; no reader sees it change. */
export const PROBE_VERSION = 'probe';
/** The counter of asset records. */
const ASSETS_VERSION = 'assets';

/** Adds 1 to a version counter, inside the caller's transaction. */
export function bumpVersion(db: Pick<SqliteDatabase, 'insert'>, name: string): void {
  // Transactions are synchronous: nobody in this process can look between this line and the commit.
  if (name === ASSETS_VERSION) ownAssetWrites += 1;
  else ownWrites += 1;
  db.insert(versions)
    .values({ name, value: 1 })
    .onConflictDoUpdate({ target: versions.name, set: { value: sql`${versions.value} + 1` } })
    .run();
}

/** Reads a version counter: a number that changes with every write, by whichever process. */
export function versionReader(db: SqliteDatabase, name: string): () => number {
  const statement = db.$client.prepare('SELECT value FROM versions WHERE name = ?').pluck();
  return () => (statement.get(name) as number | undefined) ?? 0;
}

/** {@link Versions} over SQLite: sums of counters, none of which ever goes back. */
export function createVersions(db: SqliteDatabase): Versions {
  const total = db.$client.prepare<[string, string], Record<ToldOf, number>>(
    'SELECT total(value) AS assets, total(value) FILTER (WHERE name <> ?) AS others FROM versions WHERE name <> ?',
  );
  return {
    stamp: (of) => (of === 'assets' ? ownWrites + ownAssetWrites : ownWrites),
    async read() {
      return total.get(ASSETS_VERSION, PROBE_VERSION) as Record<ToldOf, number>;
    },
  };
}
