import { setTimeout as sleep } from 'node:timers/promises';

// Somebody else who keeps all writers out, as a backup or somebody's console may: `database-locker.ts DATABASE MS`, where that is a file of
// SQLite or the URL of a PostgreSQL database. Says when it has the lock, and when it has let go.
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
  // Rows can be read under it, and not be written.
  await connection.query(`BEGIN; LOCK TABLE ${rows.map(({ name }) => name).join(', ')} IN EXCLUSIVE MODE`);
  return async () => {
    await connection.query('COMMIT');
    await connection.end();
  };
}
