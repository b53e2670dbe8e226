import { is } from 'drizzle-orm';
import { PgDialect, PgTable, getTableConfig as postgresTable } from 'drizzle-orm/pg-core';
import { SQLiteSyncDialect, SQLiteTable, getTableConfig as sqliteTable } from 'drizzle-orm/sqlite-core';
import { expect, it } from 'vitest';
import * as sqlite from '../sqlite/schema.ts';
import * as postgres from './schema.ts';

/** The PostgreSQL types for each column type of SQLite. */
const TYPES: Record<string, readonly string[]> = {
  SQLiteText: ['text COLLATE "C"'],
  SQLiteTextJson: ['json'],
  SQLiteBoolean: ['boolean'],
  SQLiteInteger: ['integer', 'bigint'],
  SQLiteReal: ['double precision'],
  SQLiteBlobBuffer: ['bytea'],
};
/** Columns whose numbers always stay small. All others may exceed 2^31. */
const SMALL = /^(width|height|files|priority|attempts?|fruitless_attempts|lost_leases|pid|concurrency)$/;

type Named = { name: string };
const byName = (a: Named, b: Named) => a.name.localeCompare(b.name);
const names = (columns: readonly unknown[]) => columns.map((column) => (column as Named).name);

/** Describes a table of either database in the same terms. */
function shapeOf(
  table: ReturnType<typeof postgresTable> | ReturnType<typeof sqliteTable>,
  sqlOf: (sql: never) => string,
) {
  return {
    name: table.name,
    columns: [...table.columns].sort(byName).map(({ name, notNull, primary, isUnique, default: value }) => ({
      ...{ name, notNull, primary, isUnique, default: value ?? null },
    })),
    primaryKeys: table.primaryKeys.map(({ columns }) => names(columns)),
    uniques: table.uniqueConstraints
      .map((unique) => ({ name: unique.getName() ?? '', columns: names(unique.columns) }))
      .sort(byName),
    foreignKeys: table.foreignKeys
      .map(({ reference, onDelete }) => {
        const { columns, foreignColumns, foreignTable } = reference();
        const to = is(foreignTable, PgTable) ? postgresTable(foreignTable) : sqliteTable(foreignTable as SQLiteTable);
        const name = `${names(columns).join()} -> ${to.name}(${names(foreignColumns).join()})`;
        return { name, onDelete: onDelete ?? 'no action' };
      })
      .sort(byName),
    indexes: table.indexes
      .map(({ config }) => ({
        name: config.name ?? '',
        columns: names(config.columns),
        unique: config.unique,
        where: config.where === undefined ? null : sqlOf(config.where as never),
      }))
      .sort(byName),
  };
}

const sqliteTables = Object.values(sqlite)
  .filter((value) => is(value, SQLiteTable))
  .map(sqliteTable)
  .sort(byName);
const postgresTables = Object.values(postgres)
  .filter((value) => is(value, PgTable))
  .map(postgresTable)
  .sort(byName);

it('SQLite and PostgreSQL have the same tables', () => {
  expect(sqliteTables.length).toBeGreaterThan(15);
  expect(names(postgresTables)).toEqual(names(sqliteTables));
});

it.each(names(sqliteTables))('%s has the same columns, keys, references and indexes in both databases', (name) => {
  const inSqlite = sqliteTables.find((table) => table.name === name);
  const inPostgres = postgresTables.find((table) => table.name === name);
  if (!inSqlite || !inPostgres) throw new Error(`${name} is missing.`);
  const sqliteSql = new SQLiteSyncDialect();
  const postgresSql = new PgDialect();
  expect(shapeOf(inPostgres, (where) => postgresSql.sqlToQuery(where).sql)).toEqual(
    shapeOf(inSqlite, (where) => sqliteSql.sqlToQuery(where).sql),
  );
  for (const column of inSqlite.columns) {
    const type = inPostgres.columns.find((other) => other.name === column.name)?.getSQLType() ?? '';
    expect(TYPES[column.columnType] ?? column.columnType, `${name}.${column.name}`).toContain(type);
    if (column.columnType === 'SQLiteInteger') {
      expect(type, `${name}.${column.name}`).toBe(SMALL.test(column.name) ? 'integer' : 'bigint');
    }
  }
});
