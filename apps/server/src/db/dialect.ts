import type { Column, SQL } from 'drizzle-orm';
import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
import type { PgTable } from 'drizzle-orm/pg-core';
import type { VersionScope } from './changes.ts';
import type { OwnedEvent } from './event-data.ts';
import type { Tables } from './tables.ts';

/** Builds and runs statements. Both dialects accept these calls, and both return rows from a select and from `returning()`. */
export type Executor = Pick<NodePgDatabase, 'select' | 'selectDistinct' | 'insert' | 'update' | 'delete' | '$count'>;

/** Version counters. Each is raised when data that readers see changes. */
export type VersionName = 'assets' | 'media' | 'projects' | 'regions';

/** Statements that take effect together or not at all. */
export interface Transaction {
  /** Its own connection. Others see nothing of what it writes before the commit. */
  readonly db: Executor;
  /** Writes an event at the end of the transaction. */
  append(event: OwnedEvent): void;
  /** Raises a counter at the end of the transaction. */
  bump(version: VersionName): void;
  /**
   * Makes transactions that lock the same name run one after another. It protects decisions about rows that do not exist yet, which no
   * row lock can. Locks are taken in one order, so that transactions never wait for each other in a circle.
   */
  lock(...names: string[]): Promise<void>;
}

/** A query that a dialect can prepare. */
interface Preparable<Row> {
  prepare(name: string): { execute(values?: Record<string, unknown>): Promise<Row[]> };
}

/** A select that can lock its rows. */
interface Lockable {
  for(strength: 'update', config?: object): unknown;
}

/** The row locks of a query. */
export interface RowLocks {
  /** `no key update` lets others refer to the row; `key share` only prevents its deletion. */
  strength: 'update' | 'no key update' | 'key share';
  /** Only the rows of this table. */
  of?: PgTable;
  /** Passes over rows that others have locked, instead of waiting for them. */
  skipLocked?: boolean;
  /** Also prevents the deletion of this table's row. Rows that are being deleted are passed over. */
  keyShareOf?: PgTable;
}

/** A database as repositories see it. SQLite and PostgreSQL each have one adapter. */
export interface Dialect {
  readonly tables: Tables;
  /** Single queries. Each sees what was committed before it began, and waits for no writer. */
  readonly read: Executor;
  /**
   * Prepares a statement that runs often and returns rows. SQLite builds it once. PostgreSQL plans it once for each connection.
   * @param name unique among all statements
   * @returns runs it, on the transaction's connection if one is given
   */
  prepare<Row>(
    name: string,
    build: (db: Executor) => Preparable<Row>,
  ): (values: Record<string, unknown>, tx?: Pick<Transaction, 'db'>) => Promise<Row[]>;
  /**
   * Prepares SQL without a mapper, for what is asked with every request. Columns are text or whole numbers. Parameters are `$1`, `$2`, …,
   * each used once and in this order.
   * @param options.isUrgent answered at once even if all connections are busy: for versions, which decide if a cached answer is valid
   */
  prepareText<Row extends object>(
    name: string,
    text: string,
    options?: { isUrgent?: boolean },
  ): (...values: (string | number)[]) => Promise<Row[]>;
  /** Runs one statement that writes. */
  change<T>(statement: (db: Executor) => PromiseLike<T>): Promise<T>;
  /**
   * Runs one statement about something that a running process holds, such as a lock. SQLite does not wait for the disk: a power failure
   * that loses the statement also ends every process that could hold anything.
   */
  hold<T>(statement: (db: Executor) => PromiseLike<T>): Promise<T>;
  /**
   * Runs a transaction. `work` may run more than once, so it must have no effects outside the transaction.
   * @param options.isShared for writes that arrive in bursts: SQLite collects them into one commit
   * @returns what `work` returned, after the commit is on disk
   */
  write<T>(work: (tx: Transaction) => Promise<T>, options?: { isShared?: boolean }): Promise<T>;
  /** As `write`, without waiting for the disk. If the database's machine fails within a second, the change may be lost. */
  writeSoon<T>(work: (tx: Pick<Transaction, 'db'>) => Promise<T>): Promise<T>;
  /**
   * Inserts many rows with the same columns, in one transaction.
   * @param name unique among all statements; the same for the same `build`
   * @param build the INSERT of some of them
   */
  insertAll<Row extends object>(
    name: string,
    rows: readonly Row[],
    build: (rows: Row[]) => PromiseLike<unknown>,
  ): Promise<void>;
  /** Writes one event. @returns its `seq` */
  append(event: OwnedEvent): Promise<number>;
  /** Locks the rows that a query of a transaction finds. No effect in SQLite: a transaction that writes locks the whole database. */
  lockRows<Query extends Lockable>(query: Query, locks: RowLocks): Query;
  /** Whether a column has one of these values. They are one parameter, because a film of some hours has more files than a statement may have parameters. */
  isAnyOf(column: Column, values: readonly (string | number)[]): SQL;
  /** A column whose index SQLite does not use. PostgreSQL decides by statistics, and needs no hint. */
  unindexed(column: Column): SQL;
  /** See `Versions.stamp`. */
  stamp(scope: VersionScope): number;
  /** See `EventRepository.onAppended`. */
  onAppended(listener: () => void): () => void;
}

/** The result of a statement without rows, from `pg` and from `better-sqlite3`. */
type WriteResult = { rowCount: number | null } | { changes: number };

/** How many rows a statement without `returning()` wrote. */
export function changedRows(result: WriteResult): number {
  return 'changes' in result ? result.changes : (result.rowCount ?? 0);
}
