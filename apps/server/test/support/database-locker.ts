import { setTimeout as sleep } from 'node:timers/promises';

// Blocks all writers of a database, as a backup or a console may: `database-locker.ts DATABASE MS`, with a SQLite file or a PostgreSQL URL.
// Prints a line when it has the lock, and when it has released it.
const [database = '', ms = ''] = process.argv.slice(2);
const unlock = database.startsWith('postgres:') ? await lockPostgres(database) : await lockSqlite(database);
process.stdout.write('locked\n');
await sleep(Number(ms));
await unlock();
process.stdout.write('released\n');

async function lockSqlite(file: string): Promise<() => Promise<void>> {
  const { Database } = await import('../../src/db/sqlite/driver.ts');
  const connection = new Database(file, { timeout: 10_000 });
  connection.exec('BEGIN EXCLUSIVE');
  return async () => {
    connection.exec('COMMIT');
    connection.close();
  };
}

async function lockPostgres(url: string): Promise<() => Promise<void>> {
  const { Client } = await import('pg');
  const connection = new Client({ connectionString: url });
  await connection.connect();
  const { rows } = await connection.query<{ name: string }>(
    "SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables WHERE schemaname = 'public'",
  );
  // This lock allows reads, but no writes.
  await connection.query(`BEGIN; LOCK TABLE ${rows.map(({ name }) => name).join(', ')} IN EXCLUSIVE MODE`);
  return async () => {
    await connection.query('COMMIT');
    await connection.end();
  };
}
