import { createHash } from 'node:crypto';
import { getTableName, sql } from 'drizzle-orm';
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres';
import type { Pool, PoolClient, QueryConfig, QueryResult, QueryResultRow } from 'pg';
import type { Dialect, Transaction } from '../dialect.ts';
import { createOutbox, type EventOptions, type Outbox } from '../outbox.ts';
import { storableText, storableValues } from '../storable.ts';
import { ADVISORY_CLASS, EVENTS_LOCK } from './advisory-locks.ts';
import { CHANNEL, type SharedChanges } from './changes.ts';
import { isUnavailable } from './errors.ts';
import type { PoolShare } from './pool-share.ts';
import * as tables from './schema.ts';

/** The connection for single queries. */
export interface QuerySource {
  readonly $client: { query<Row extends QueryResultRow>(query: QueryConfig): Promise<QueryResult<Row>> };
}

/** The connections of a {@link Dialect} over PostgreSQL. */
export interface PostgresParts {
  /** For readers, which wait for no lock. */
  pool: Pool;
  /** For those who write, who may. */
  writing: PoolShare;
  /** See `ChangeListener.queries`. */
  listening: QuerySource;
  changes: SharedChanges;
  events?: EventOptions;
}

/** OIDs of `bigint` and `integer`. The driver returns `bigint` as text, and all of ours are exact as numbers. */
const NUMBERS: ReadonlySet<number> = new Set([20, 23]);
const types = {
  getTypeParser: (oid: number) => (NUMBERS.has(oid) ? Number : (text: string) => text),
};

/** Rows of one INSERT. A statement has at most 65,535 parameters, and our widest rows have 20. */
const INSERTED_ROWS = 1_000;

/** https://www.postgresql.org/docs/15/wal-async-commit.html */
const BEGIN_SOON = 'BEGIN; SET LOCAL synchronous_commit TO off';

/** Adapts PostgreSQL to the {@link Dialect}. */
export function createPostgresDialect(parts: PostgresParts): Dialect {
  const { pool, writing, listening, changes } = parts;
  const read: NodePgDatabase = drizzle(pool);
  // Drizzle only sends single queries to a pool, which a share can do. Transactions are our own code.
  const writer: NodePgDatabase = drizzle(writing as Pool);
  const run = createTransactionRunner(parts);
  return {
    tables,
    read,

    prepare(name, build) {
      let prepared: { execute(values?: Record<string, unknown>): Promise<unknown> } | undefined;
      // Each transaction has a connection of its own, which has parsed and planned the query of this name at most once.
      return async (values, tx) => {
        if (tx) return build(tx.db).prepare(name).execute(storableValues(values));
        prepared ??= build(read).prepare(name);
        return prepared.execute(storableValues(values)) as ReturnType<
          ReturnType<ReturnType<typeof build>['prepare']>['execute']
        >;
      };
    },

    prepareText<Row extends object>(name: string, text: string, { isUrgent = false } = {}) {
      const source: QuerySource = isUrgent ? listening : { $client: pool };
      return async (...values: (string | number)[]) => {
        const storable = values.map((value) => (typeof value === 'string' ? storableText(value) : value));
        return (await source.$client.query<Row & QueryResultRow>({ name, text, values: storable, types })).rows;
      };
    },

    change: async (statement) => statement(writer),
    hold: async (statement) => statement(writer),
    write: async (work) => (await run(work)).result,
    writeSoon: async (work) => (await run(work, BEGIN_SOON)).result,

    async insertAll(_name, rows, build) {
      for (let from = 0; from < rows.length; from += INSERTED_ROWS) {
        await build(rows.slice(from, from + INSERTED_ROWS));
      }
    },

    append: async (event) => (await run(async (tx) => tx.append(event))).numbers[0] ?? 0,

    lockRows(query, { strength, of, skipLocked = false, keyShareOf }) {
      // Drizzle supports one locking clause. A second one precedes it, as text.
      const both = keyShareOf && `key share of "${getTableName(keyShareOf)}" skip locked for ${strength}`;
      const config = { ...(of ? { of } : {}), ...(skipLocked ? { skipLocked } : {}) };
      return query.for((both ?? strength) as 'update', config) as typeof query;
    },

    isAnyOf: (column, values) =>
      sql`${column} = ANY(${sql.param(values.map((value) => column.mapToDriverValue(value)))})`,
    unindexed: (column) => sql`${column}`,
    stamp: changes.stamp,
    onAppended: changes.onAppended,
  };
}

/** Runs a transaction, with its events and counters at the end. */
type TransactionRunner = <T>(
  work: (tx: Transaction) => Promise<T>,
  begin?: string,
) => Promise<{ result: T; numbers: number[] }>;

function createTransactionRunner({ writing, changes, events }: PostgresParts): TransactionRunner {
  const settle = async (db: NodePgDatabase, outbox: Outbox): Promise<number[]> => {
    // Numbers are assigned before the commit. Without the lock, a reader of 7 could miss a 6 that is committed later.
    const numbers = await outbox.write(db, () =>
      db.execute(sql`SELECT pg_advisory_xact_lock(${ADVISORY_CLASS}, ${EVENTS_LOCK})`),
    );
    const change = outbox.change();
    // Commits with a notice run one after another in all of PostgreSQL.
    if (change.versions || change.events) {
      await db.execute(sql`SELECT pg_notify(${CHANNEL}, ${changes.payloadOf(change)})`);
    }
    changes.note({ ...change, events: false });
    return numbers;
  };

  return async (work, begin = 'BEGIN') => {
    const client = await writing.connect();
    const db = drizzle(client);
    const outbox = createOutbox(tables, events);
    let broken: Error | undefined;
    try {
      await client.query(begin);
      const lock = (...names: string[]) => lockNames(db, names);
      const result = await work({ db, append: outbox.append, bump: outbox.bump, lock });
      const numbers = await settle(db, outbox);
      await client.query('COMMIT');
      return { result, numbers };
    } catch (error) {
      broken = await rolledBack(client, error);
      throw error;
    } finally {
      client.release(broken);
      changes.note(outbox.change());
    }
  };
}

/** See {@link Transaction.lock}. */
async function lockNames(db: NodePgDatabase, names: readonly string[]): Promise<void> {
  const keys = [...new Set(names)].map((name) => createHash('sha256').update(name).digest().readBigInt64BE());
  keys.sort((a, b) => (a < b ? -1 : 1));
  for (const key of keys) await db.execute(sql`SELECT pg_advisory_xact_lock(${key.toString()}::bigint)`);
}

/** Rolls the transaction back. @returns why the connection must not be used again; undefined if it may */
async function rolledBack(client: PoolClient, reason: unknown): Promise<Error | undefined> {
  // The server may not answer. Uncommitted changes are lost with the connection.
  if (isUnavailable(reason)) return reason as Error;
  try {
    await client.query('ROLLBACK');
    return undefined;
  } catch (error) {
    return error as Error;
  }
}
