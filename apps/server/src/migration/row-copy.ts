import type { ClientBase } from 'pg';
import { createRowsChecksum, type TableSum } from './rows-checksum.ts';
import type { SourceDatabase } from './source-database.ts';
import type { Table, Value } from './tables.ts';

/** Rows in one statement: a few milliseconds of the event loop, in which nobody is answered. */
const BATCH_ROWS = 100;

/**
 * Writes all rows of the tables, whose own rows go, in a transaction that the caller has begun.
 * @param options.onRows told after each batch, of one table
 * @returns the sums of what was read at the source
 */
export async function copyRows(
  source: SourceDatabase,
  client: ClientBase,
  { tables, signal, onRows }: { tables: readonly Table[]; signal: AbortSignal; onRows(count: number): void },
): Promise<Map<string, TableSum>> {
  const sums = new Map<string, TableSum>();
  await client.query(`TRUNCATE ${tables.map(({ name }) => `"${name}"`).join(', ')} CASCADE`);
  for (const table of tables) {
    const checksum = createRowsChecksum();
    for (const batch of batches(source.rows(table))) {
      signal.throwIfAborted();
      for (const row of batch) checksum.add(row);
      await insert(client, table, batch);
      onRows(batch.length);
      // Those who read have their turn.
      await new Promise((resolve) => setImmediate(resolve));
    }
    if (table.identity !== null) {
      await continueNumbers(client, table.name, table.identity, source.lastNumber(table.name));
    }
    sums.set(table.name, checksum.sum());
  }
  return sums;
}

/** Reads a table back and sums it up as {@link copyRows} has summed up its source. Within a transaction. */
export async function sumUpRows(client: ClientBase, table: Table, signal: AbortSignal): Promise<TableSum> {
  const checksum = createRowsChecksum();
  // Parsed, a document would be another text.
  const columns = table.columns.map(({ name, type }) => (type === 'json' ? `"${name}"::text` : `"${name}"`));
  const order = table.primaryKey.map((name) => `"${name}"`).join(', ');
  await client.query(
    `DECLARE copied NO SCROLL CURSOR FOR SELECT ${columns.join(', ')} FROM "${table.name}" ORDER BY ${order}`,
  );
  for (;;) {
    signal.throwIfAborted();
    const { rows } = await client.query<Value[]>({ text: `FETCH ${BATCH_ROWS * 5} FROM copied`, rowMode: 'array' });
    if (rows.length === 0) break;
    for (const row of rows) checksum.add(row);
  }
  await client.query('CLOSE copied');
  return checksum.sum();
}

async function insert(client: ClientBase, { name, columns }: Table, rows: readonly Value[][]): Promise<void> {
  const names = columns.map((column) => `"${column.name}"`).join(', ');
  const places = rows.map(
    (_, row) => `(${columns.map((_column, at) => `$${row * columns.length + at + 1}`).join(', ')})`,
  );
  await client.query(`INSERT INTO "${name}" (${names}) VALUES ${places.join(', ')}`, rows.flat());
}

/** Numbers that were given once, also to rows that are gone by now, are not given again: what came after one is asked for by it. */
async function continueNumbers(client: ClientBase, table: string, column: string, last: number): Promise<void> {
  await client.query('SELECT setval(pg_get_serial_sequence($1, $2), $3, false)', [`"${table}"`, column, last + 1]);
}

function* batches(rows: Iterable<Value[]>): Generator<Value[][]> {
  let batch: Value[][] = [];
  for (const row of rows) {
    batch.push(row);
    if (batch.length < BATCH_ROWS) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}
