import { blob, foreignKey, index, integer, primaryKey, real, sqliteTable, text, unique } from 'drizzle-orm/sqlite-core';

/** The column types of SQLite. Lists and documents are JSON text. */
export const sqliteColumns = {
  table: sqliteTable,
  text: (name: string) => text(name),
  integer: (name: string) => integer(name),
  bigint: (name: string) => integer(name),
  /** A primary key that counts up and never reuses a number. */
  sequence: (name: string) => integer(name).primaryKey({ autoIncrement: true }),
  double: (name: string) => real(name),
  boolean: (name: string) => integer(name, { mode: 'boolean' }),
  json: (name: string) => text(name, { mode: 'json' }),
  bytes: (name: string) => blob(name, { mode: 'buffer' }),
  index,
  unique,
  primaryKey,
  /** SQLite's foreign keys have no names. */
  foreignKey: ({ name: _name, ...key }: Parameters<typeof foreignKey>[0]) => foreignKey(key),
};
