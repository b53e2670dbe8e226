import type { ClientBase } from 'pg';
import type { Value } from './column-rules.ts';
import { BATCH_ROWS, batches, insertRows, type RowCopyOptions, selected } from './row-copy.ts';
import { type RowsChecksum, rowText } from './rows-checksum.ts';
import type { SourceDatabase } from './source-database.ts';
import type { Table } from './tables.ts';

/** A row at the destination differs from the one that was written. */
export class RowsDifferError extends Error {
  override name = 'RowsDifferError';
  readonly table: string;
  constructor(table: string) {
    super(`The rows of ${table} are not the same at the destination.`);
    this.table = table;
  }
}

/**
 * Writes the rows that changed at the source between the last two held moments, removes deleted ones, reads all of them back and compares
 * them. The cost depends on the changes, not on the size of the tables.
 * @param checksums of each table at the destination; they are updated
 * @returns how many rows changed
 * @throws RowsDifferError
 */
export async function copyChangedRows(
  source: SourceDatabase,
  client: ClientBase,
  tables: readonly Table[],
  checksums: ReadonlyMap<string, RowsChecksum>,
  { signal, onRows }: RowCopyOptions,
): Promise<number> {
  let changed = 0;
  // Deleted rows first, and among them those that refer to others: a new row may reuse a unique value of an old one.
  for (const table of [...tables].reverse()) {
    for (const keys of batches(source.changedKeys(table), BATCH_ROWS)) {
      signal.throwIfAborted();
      changed += keys.length;
      for (const row of await rowsAt(client, table, keys)) checksums.get(table.name)?.remove(row);
      const gone = keys.filter((key) => source.row(table, key) === null);
      if (gone.length > 0) await client.query(`DELETE FROM "${table.name}" WHERE ${among(table, gone)}`, gone.flat());
    }
  }
  for (const table of tables) {
    for (const keys of batches(source.changedKeys(table), BATCH_ROWS)) {
      signal.throwIfAborted();
      const rows = keys.map((key) => source.row(table, key)).filter((row) => row !== null);
      if (rows.length > 0) await insertRows(client, table, rows);
      const copied = await rowsAt(client, table, keys);
      const [read, written] = [copied, rows].map((some) => some.map(rowText).sort().join('\n'));
      if (read !== written) throw new RowsDifferError(table.name);
      for (const row of copied) checksums.get(table.name)?.add(row);
      onRows(rows.length);
    }
  }
  return changed;
}

/** @throws RowsDifferError if the two sides differ in their number of rows */
export async function compareCounts(
  source: SourceDatabase,
  client: ClientBase,
  tables: readonly Table[],
): Promise<void> {
  for (const table of tables) {
    const { rows } = await client.query<{ count: string }>(`SELECT count(*) FROM "${table.name}"`);
    if (Number(rows[0]?.count) !== source.count(table)) throw new RowsDifferError(table.name);
  }
}

async function rowsAt(client: ClientBase, table: Table, keys: readonly Value[][]): Promise<Value[][]> {
  const text = `SELECT ${selected(table)} FROM "${table.name}" WHERE ${among(table, keys)}`;
  return (await client.query<Value[]>({ text, values: keys.flat(), rowMode: 'array' })).rows;
}

/** A condition for the rows with these primary keys, which are its parameters. */
function among({ primaryKey }: Table, keys: readonly Value[][]): string {
  const places = keys.map((key, at) => `(${key.map((_, part) => `$${at * key.length + part + 1}`).join(', ')})`);
  return `(${primaryKey.map((name) => `"${name}"`).join(', ')}) IN (${places.join(', ')})`;
}
