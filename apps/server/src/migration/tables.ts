import { is } from 'drizzle-orm';
import { PgTable, getTableConfig as postgresTable } from 'drizzle-orm/pg-core';
import { SQLiteTable, getTableConfig as sqliteTable } from 'drizzle-orm/sqlite-core';
import * as postgres from '../db/postgres/schema.ts';
import * as sqlite from '../db/sqlite/schema.ts';
import { COLUMN_RULES, type ColumnRule, SKIPPED_TABLES, TABLES_COPIED_LAST } from './column-rules.ts';

/** A column that both databases have. */
export interface Column {
  name: string;
  /** Column type in PostgreSQL. */
  type: 'text' | 'json' | 'bytea' | 'boolean' | 'integer' | 'bigint' | 'double precision';
  /** Replaces the source's value; null: it is copied as it is. */
  rule: ColumnRule | null;
}

/** A table whose rows move. */
export interface Table {
  name: string;
  columns: readonly Column[];
  /** Columns by which rows are ordered on both sides. */
  primaryKey: readonly string[];
  /** Column that PostgreSQL numbers for new rows; null: none. */
  identity: string | null;
  /** Whether it is copied whole after the last write, without following its changes. */
  isLast: boolean;
}

/** Every table whose rows move, each after those that it refers to. */
export function tablesToCopy(): Table[] {
  const configs = (Object.values(postgres) as unknown[])
    .filter((value): value is PgTable => is(value, PgTable))
    .map((table) => postgresTable(table));
  const sources = new Map(
    (Object.values(sqlite) as unknown[])
      .filter((value): value is SQLiteTable => is(value, SQLiteTable))
      .map((table) => sqliteTable(table))
      .map((config) => [config.name, config]),
  );
  const ordered: typeof configs = [];
  const visit = (config: (typeof configs)[number]) => {
    if (ordered.includes(config)) return;
    for (const { reference } of config.foreignKeys) {
      const { name } = postgresTable(reference().foreignTable);
      const other = configs.find((candidate) => candidate.name === name);
      if (other !== undefined && other !== config) visit(other);
    }
    ordered.push(config);
  };
  for (const config of configs) visit(config);

  return ordered
    .filter(({ name }) => !SKIPPED_TABLES.includes(name))
    .map(({ name, columns, primaryKeys }): Table => {
      const known = new Set(sources.get(name)?.columns.map((column) => column.name));
      return {
        name,
        columns: columns.map((column) => {
          if (!known.has(column.name)) throw new Error(`SQLite has no ${name}.${column.name}.`);
          return {
            name: column.name,
            type: column.getSQLType().replace(' COLLATE "C"', '') as Column['type'],
            rule: COLUMN_RULES[name]?.[column.name] ?? null,
          };
        }),
        primaryKey:
          primaryKeys[0]?.columns.map((column) => column.name) ??
          columns.filter(({ primary }) => primary).map((column) => column.name),
        identity: columns.find(({ generatedIdentity }) => generatedIdentity !== undefined)?.name ?? null,
        isLast: TABLES_COPIED_LAST.includes(name),
      };
    });
}
