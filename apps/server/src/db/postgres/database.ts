import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
import type { Pool, QueryConfig, QueryResult, QueryResultRow } from 'pg';
import type { ToldOf, Versions } from '../repositories.ts';
import type { Changes } from './changes.ts';
import { storableText } from './columns.ts';

/** The database: each query on whichever connection of the pool is free. */
export type PostgresDatabase = NodePgDatabase & { $client: Pool };

/** What single queries are asked over. */
export interface QuerySource {
  readonly $client: { query<Row extends QueryResultRow>(query: QueryConfig): Promise<QueryResult<Row>> };
}

/** The row of `versions` that only says that the database can be written; no reader sees it change. */
export const PROBE_VERSION = 'probe';

/** OID of `bigint`, whose values the driver gives as text: all of ours are exact as numbers. */
const INT8 = 20;
const types = {
  getTypeParser: (oid: number) => (oid === INT8 ? Number : (text: string) => text),
};

/**
 * A query without a mapper that each connection parses and plans once: for what is asked with every request. Its columns are text
 * and `bigint`.
 */
export function preparedQuery<Row extends QueryResultRow>(
  db: QuerySource,
  name: string,
  text: string,
): (...values: (string | number)[]) => Promise<Row[]> {
  return async (...values) => {
    const storable = values.map((value) => (typeof value === 'string' ? storableText(value) : value));
    return (await db.$client.query<Row>({ name, text, values: storable, types })).rows;
  };
}

/** Reads a version counter: a number that changes with every write, by whichever process. */
export function versionReader(db: QuerySource): (name: string) => Promise<number> {
  const value = preparedQuery<{ value: number }>(db, 'version', 'SELECT value FROM versions WHERE name = $1');
  return async (name) => (await value(name))[0]?.value ?? 0;
}

/** {@link Versions} over PostgreSQL: sums of counters, none of which ever goes back. */
export function createVersions(db: QuerySource, changes: Changes): Versions {
  const total = preparedQuery<Record<ToldOf, number>>(
    db,
    'versions_total',
    `SELECT coalesce(sum(value), 0)::bigint AS assets, coalesce(sum(value) FILTER (WHERE name <> 'assets'), 0)::bigint AS others
     FROM versions WHERE name <> $1`,
  );
  return {
    stamp: changes.stamp,
    async read() {
      return (await total(PROBE_VERSION))[0] ?? { assets: 0, others: 0 };
    },
  };
}
