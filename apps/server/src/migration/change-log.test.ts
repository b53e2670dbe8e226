import { afterEach, beforeEach, expect, it, onTestFinished } from 'vitest';
import { Database } from '../db/sqlite/driver.ts';
import { createChangeLog, createChangeReader, removeChangeLog } from './change-log.ts';
import { type Deployment, makeDeployment } from './migration.fixture.ts';
import { type Table, tablesToCopy } from './tables.ts';

let deployment: Deployment;
let client: Database;
beforeEach(async () => {
  deployment = await makeDeployment();
  client = new Database(deployment.databaseFile);
});
afterEach(() => {
  client.close();
});

function tableOf(name: string): Table {
  const table = tablesToCopy().find((candidate) => candidate.name === name);
  if (table === undefined) throw new Error(`There is no table ${name}.`);
  return table;
}

it('records rows that any connection adds, changes, or deletes', async () => {
  const [id = '', other = ''] = await deployment.addMedia(2);
  const log = createChangeLog(deployment.databaseFile);
  onTestFinished(() => removeChangeLog(deployment.databaseFile));
  log.begin(tablesToCopy());
  const changes = createChangeReader(client);
  expect(changes.keys(tableOf('media'))).toEqual([]);

  const [added = ''] = await deployment.addMedia(1);
  expect(changes.mediaIds()).toEqual([added]);
  changes.advance();
  expect(changes.mediaIds()).toEqual([]);

  // SQLite itself deletes the rows that refer to a deleted row.
  await deployment.repositories.media.delete(id);
  expect(changes.keys(tableOf('media'))).toEqual([[id]]);
  expect(changes.keys(tableOf('media_renditions')).map(([of]) => of)).toEqual([id, id]);
  expect(changes.keys(tableOf('processing_attempts'))).toHaveLength(1);
  changes.advance();

  const writer = new Database(deployment.databaseFile);
  onTestFinished(() => void writer.close());
  writer.prepare('UPDATE media SET width = 7 WHERE id = ?').run(other);
  expect(changes.keys(tableOf('media'))).toEqual([[other]]);
});

it('does not record heartbeats of a lease, as leases are not moved', async () => {
  await deployment.addHeld();
  createChangeLog(deployment.databaseFile).begin(tablesToCopy());
  onTestFinished(() => removeChangeLog(deployment.databaseFile));
  const changes = createChangeReader(client);
  client.prepare('UPDATE jobs SET lease_beat = lease_beat + 1, progress = 0.5').run();
  expect(changes.keys(tableOf('jobs'))).toEqual([]);
  client.prepare('UPDATE jobs SET attempts = attempts + 1').run();
  expect(changes.keys(tableOf('jobs'))).toHaveLength(1);
});

it('leaves nothing in the database, even if the service was killed', () => {
  const names = () => client.prepare("SELECT name FROM sqlite_schema WHERE name LIKE 'migration_changes%'").all();
  const log = createChangeLog(deployment.databaseFile);
  log.begin(tablesToCopy());
  expect(names()).not.toEqual([]);
  log.end();
  expect(names()).toEqual([]);
  log.begin(tablesToCopy());
  removeChangeLog(deployment.databaseFile);
  expect(names()).toEqual([]);
});
