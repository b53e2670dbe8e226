import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type MigrationMeta, readMigrationFiles } from 'drizzle-orm/migrator';
import { z } from 'zod';

/** A migration as drizzle-kit generated it. `folderMillis` is when, and orders them. */
export interface Migration extends MigrationMeta {
  /** Such as `0001_node_positions`. */
  name: string;
}

/** The migrations that a database has had, and those that it lacks for this version; names, oldest first. */
export interface SchemaState {
  /** The database's name in messages, without a password. */
  database: string;
  applied: string[];
  pending: string[];
}

const Journal = z.object({ entries: z.array(z.object({ tag: z.string(), when: z.number() })) });

/** All migrations of this version, oldest first. */
export function readMigrations(folder: string): Migration[] {
  const { entries } = Journal.parse(JSON.parse(readFileSync(join(folder, 'meta/_journal.json'), 'utf8')));
  const names = new Map(entries.map(({ tag, when }) => [when, tag]));
  return readMigrationFiles({ migrationsFolder: folder }).map((meta) => ({
    ...meta,
    name: names.get(meta.folderMillis) ?? meta.hash,
  }));
}

/** @param isApplied whether the database has had a migration */
export function schemaState(
  database: string,
  migrations: readonly Migration[],
  isApplied: (migration: Migration) => boolean,
): SchemaState {
  const names = (wanted: boolean) =>
    migrations.filter((migration) => isApplied(migration) === wanted).map(({ name }) => name);
  return { database, applied: names(true), pending: names(false) };
}
