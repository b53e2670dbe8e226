import type { ClientBase } from 'pg';
import type { Value } from './column-rules.ts';
import { createRowsChecksum, type RowsChecksum } from './rows-checksum.ts';
import type { SourceDatabase } from './source-database.ts';
import type { Table } from './tables.ts';

/** Rows in one statement: a few milliseconds, for which the event loop is blocked. */
export const BATCH_ROWS = 100;

/** Callback and signal of a copy. */
export interface RowCopyOptions {
  signal: AbortSignal;
  /** Called after each batch, of one table. */
  onRows(count: number): void;
}

/** Empties these tables at the destination, in a transaction of the caller. */
export async function emptyTables(client: ClientBase, tables: readonly Table[]): Promise<void> {
  await client.query(`TRUNCATE ${tables.map(({ name }) => `"${name}"`).join(', ')} CASCADE`);
}

/** Writes all rows of an empty table. @returns the checksum of the rows at the source */
export async function copyRows(
  source: SourceDatabase,
  client: ClientBase,
  table: Table,
  { signal, onRows }: RowCopyOptions,
): Promise<RowsChecksum> {
  const checksum = createRowsChecksum();
  for (const batch of batches(source.rows(table), BATCH_ROWS)) {
    signal.throwIfAborted();
    for (const row of batch) checksum.add(row);
    await insertRows(client, table, batch);
    onRows(batch.length);
    // Lets reads have their turn.
    await new Promise((resolve) => setImmediate(resolve));
  }
  return checksum;
}

/** Reads a table back and returns its checksum, computed as in {@link copyRows}. */
export async function sumUpRows(client: ClientBase, table: Table, signal: AbortSignal): Promise<RowsChecksum> {
  const checksum = createRowsChecksum();
  await client.query(`DECLARE copied NO SCROLL CURSOR FOR SELECT ${selected(table)} FROM "${table.name}"`);
  for (;;) {
    signal.throwIfAborted();
    const { rows } = await client.query<Value[]>({ text: `FETCH ${BATCH_ROWS * 5} FROM copied`, rowMode: 'array' });
    if (rows.length === 0) break;
    for (const row of rows) checksum.add(row);
  }
  await client.query('CLOSE copied');
  return checksum;
}

/** Writes rows; a row with the same primary key is replaced. */
export async function insertRows(client: ClientBase, table: Table, rows: readonly Value[][]): Promise<void> {
  const { name, columns, primaryKey } = table;
  const places = rows.map(
    (_, row) => `(${columns.map((_column, at) => `$${row * columns.length + at + 1}`).join(', ')})`,
  );
  const changed = columns.filter((column) => !primaryKey.includes(column.name));
  const resolution =
    changed.length === 0
      ? 'NOTHING'
      : `UPDATE SET ${changed.map((column) => `"${column.name}" = excluded."${column.name}"`).join(', ')}`;
  await client.query(
    `INSERT INTO "${name}" (${columns.map((column) => `"${column.name}"`).join(', ')}) VALUES ${places.join(', ')}
     ON CONFLICT (${primaryKey.map((key) => `"${key}"`).join(', ')}) DO ${resolution}`,
    rows.flat(),
  );
}

/** Continues the sequences: numbers of deleted rows must not be given again, because cursors refer to them. */
export async function continueNumbers(source: SourceDatabase, client: ClientBase, table: Table): Promise<void> {
  if (table.identity === null) return;
  const next = source.lastNumber(table.name) + 1;
  await client.query('SELECT setval(pg_get_serial_sequence($1, $2), $3, false)', [
    `"${table.name}"`,
    table.identity,
    next,
  ]);
}

/** The columns of a table as text for a SELECT. A parsed JSON document would be another text. */
export function selected({ columns }: Table): string {
  return columns.map(({ name, type }) => (type === 'json' ? `"${name}"::text` : `"${name}"`)).join(', ');
}

/** The items in batches. */
export function* batches<T>(items: Iterable<T>, size: number): Generator<T[]> {
  let batch: T[] = [];
  for (const item of items) {
    batch.push(item);
    if (batch.length < size) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}
