import { Database } from '../src/db/sqlite/driver.ts';

// Another program that has the database file to itself, as a backup or somebody's console may: `database-locker.ts FILE MS`.
// Says when it has the lock, and when it has let go.
const [file = '', ms = ''] = process.argv.slice(2);
const database = new Database(file, { timeout: 10_000 });
database.exec('BEGIN EXCLUSIVE');
process.stdout.write('locked\n');
setTimeout(() => {
  database.exec('COMMIT');
  database.close();
  process.stdout.write('released\n');
}, Number(ms));
