import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type MigrationMeta, readMigrationFiles } from 'drizzle-orm/migrator';
import { z } from 'zod';

/** One step of the schema, as the generator wrote it: `folderMillis` is when, and orders them. */
export interface Migration extends MigrationMeta {
  /** Such as `0001_node_positions`. */
  name: string;
}

/** Which steps a database has had, and which it lacks to be one of this version; names, oldest first. */
export interface SchemaState {
  /** What the database is called in messages; no password is in it. */
  database: string;
  applied: string[];
  pending: string[];
}

const Journal = z.object({ entries: z.array(z.object({ tag: z.string(), when: z.number() })) });

/** All steps of this version, oldest first. */
export function readMigrations(folder: string): Migration[] {
  const { entries } = Journal.parse(JSON.parse(readFileSync(join(folder, 'meta/_journal.json'), 'utf8')));
  const names = new Map(entries.map(({ tag, when }) => [when, tag]));
  return readMigrationFiles({ migrationsFolder: folder }).map((meta) => ({
    ...meta,
    name: names.get(meta.folderMillis) ?? meta.hash,
  }));
}

/** @param isApplied whether the database has had that step */
export function schemaState(
  database: string,
  migrations: readonly Migration[],
  isApplied: (migration: Migration) => boolean,
): SchemaState {
  const names = (wanted: boolean) =>
    migrations.filter((migration) => isApplied(migration) === wanted).map(({ name }) => name);
  return { database, applied: names(true), pending: names(false) };
}
