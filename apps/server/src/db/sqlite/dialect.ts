import { sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/better-sqlite3';
import { createChanges } from '../changes.ts';
import type { Dialect, Executor, Transaction } from '../dialect.ts';
import { createOutbox, type EventOptions } from '../outbox.ts';
import type { Database } from './driver.ts';
import { createGroupCommit } from './group-commit.ts';
import * as tables from './schema.ts';

/** {@link Dialect} over one SQLite file. */
export interface SqliteDialect extends Dialect {
  /** Resolves when no write waits or runs. */
  idle(): Promise<void>;
}

/** A query that was prepared; SQLite's has this method. */
interface Prepared<Row> {
  all(values: Record<string, unknown>): Row[];
}

/** An INSERT of one row that was prepared. */
interface Insert {
  run(values: object): unknown;
}

/**
 * Adapts a SQLite file to the {@link Dialect}. Transactions are asynchronous functions, so other calls run between their statements.
 * On one connection those would read rows that are not committed, and their writes would join the transaction. So all writes take
 * turns on one connection, and all reads use the other, which sees only committed rows.
 */
export function createSqliteDialect(
  { writer, reader }: { writer: Database; reader: Database },
  events: EventOptions = {},
): SqliteDialect {
  // The casts are the seam of ADR 29: repositories are typed as for PostgreSQL. With `await`, the statements of this synchronous driver return the same as those of PostgreSQL.
  const read = drizzle(reader) as unknown as Executor;
  const db = drizzle(writer) as unknown as Executor;
  const commits = createGroupCommit(writer);
  const changes = createChanges();
  /** By name, and by the columns that are null. */
  const inserts = new Map<string, Insert>();

  const run = async <T>(
    work: (tx: Transaction) => Promise<T>,
    isUrgent = true,
  ): Promise<{ result: T; numbers: number[] }> => {
    const { result, numbers } = await commits.write(
      async () => {
        const outbox = createOutbox(tables, events);
        // The write lock of the whole database is locked already.
        const result = await work({ db, append: outbox.append, bump: outbox.bump, lock: async () => undefined });
        return { result, numbers: await outbox.write(db), change: outbox.change() };
      },
      { onCommit: ({ change }) => changes.note(change), isUrgent },
    );
    return { result, numbers };
  };

  return {
    tables,
    read,

    prepare<Row>(_name: string, build: (db: Executor) => { prepare(name: string): unknown }) {
      let onReader: Prepared<Row> | undefined;
      let onWriter: Prepared<Row> | undefined;
      return async (values, tx) => {
        if (tx) onWriter ??= build(db).prepare('') as Prepared<Row>;
        else onReader ??= build(read).prepare('') as Prepared<Row>;
        return ((tx ? onWriter : onReader) as Prepared<Row>).all(values);
      };
    },

    prepareText<Row extends object>(_name: string, text: string) {
      const statement = reader.prepare<(string | number)[], Row>(text.replaceAll(/\$\d/g, '?'));
      return async (...values) => statement.all(...values);
    },

    change: (statement) => commits.write(async () => statement(db), { isUrgent: true }),
    hold: (statement) => commits.write(async () => statement(db), { isSynced: false, isUrgent: true }),
    write: async (work, { isShared = false } = {}) => (await run(work, !isShared)).result,
    writeSoon: (work) => commits.write(() => work({ db }), { isSynced: false, isUrgent: true }),

    // One row at a time costs a third of many rows in one statement, which has to be parsed with all of its parameters.
    async insertAll<Row extends object>(
      name: string,
      rows: readonly Row[],
      build: (rows: Row[]) => PromiseLike<unknown>,
    ) {
      // A null takes no placeholder, which would be stored as the type of its column has it: as false, or as JSON.
      const insertOf = (shape: string, row: Row) => {
        const values = Object.entries(row).map(([column, value]) => [
          column,
          value === null ? null : sql.placeholder(column),
        ]);
        // `build` is typed as for PostgreSQL; SQLite's insert can be prepared and run.
        const one = build([Object.fromEntries(values)]) as unknown as { prepare(): Insert };
        const insert = one.prepare();
        inserts.set(shape, insert);
        return insert;
      };
      for (const row of rows) {
        let shape = name;
        for (const [column, value] of Object.entries(row)) if (value === null) shape += ` ${column}`;
        (inserts.get(shape) ?? insertOf(shape, row)).run(row);
      }
    },

    append: async (event) => (await run(async (tx) => tx.append(event))).numbers[0] ?? 0,

    lockRows: (query) => query,
    isAnyOf: (column, values) => sql`${column} IN (SELECT value FROM json_each(${JSON.stringify(values)}))`,
    unindexed: (column) => sql`+${column}`,
    stamp: changes.stamp,
    onAppended: changes.onAppended,
    idle: commits.idle,
  };
}
