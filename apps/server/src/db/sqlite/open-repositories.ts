import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { DEFAULT_PROJECT_RECORD } from '../default-project.ts';
import { type Deployment, newDeploymentId } from '../deployment.ts';
import { createRepositories, type Repositories } from '../repositories.ts';
import { PROBE_VERSION } from '../versions.ts';
import { openDatabase, openReader } from './database.ts';
import { createSqliteDialect } from './dialect.ts';
import type { Database } from './driver.ts';
import { createLockQueue } from './lock-queue.ts';

/** Readiness and status must know soon if the database can be written; in milliseconds. */
const PROBE_WAIT_MS = 1_000;

/** Options for tests. */
export interface SqliteOptions {
  /** The wall clock, milliseconds since the epoch. */
  now?: () => number;
  /** How many events are kept. */
  keptEvents?: number;
}

/**
 * Opens the embedded database and every repository over it.
 * @param file path of the SQLite file; `:memory:` for one that is deleted when it is closed
 * @throws DatabaseRefusedError if the file must not be touched
 */
export function openSqliteRepositories(file: string, { now, keptEvents }: SqliteOptions = {}): Repositories {
  const { writer, reader } = openConnections(file);
  const deployment = deploymentOf(writer);
  const { id, name } = DEFAULT_PROJECT_RECORD;
  const project = 'INSERT INTO projects (id, name, created_at_ms) VALUES (?, ?, ?) ON CONFLICT DO NOTHING';
  writer.prepare(project).run(id, name, Date.now());
  // SQLite itself waits for the lock while the file is opened. From now on, it must not block the event loop.
  for (const connection of [writer, reader]) connection.pragma('busy_timeout = 0');
  const dialect = createSqliteDialect({ writer, reader }, { now, keep: keptEvents });
  const locks = createLockQueue();
  const raise = 'INSERT INTO versions (name, value) VALUES (?, 1) ON CONFLICT DO UPDATE SET value = value + 1';
  const raiseProbe = writer.prepare(raise);
  const probing = {
    async probe() {
      // With its sync: a disk that cannot keep what is written is not ready.
      await dialect.change(async () => raiseProbe.run(PROBE_VERSION));
    },
  };
  return {
    ...createRepositories(dialect, locks.guard, now),
    shared: false,
    deployment,
    // It has the only connections, which belong to this process.
    waitMs: () => 0,
    probe: locks.guard(probing, PROBE_WAIT_MS).probe,
    async close() {
      await locks.drained();
      await dialect.idle();
      reader.close();
      writer.close();
    },
  };
}

/** Opens two connections, for the reason given at {@link createSqliteDialect}. */
function openConnections(file: string): { writer: Database; reader: Database } {
  const isTemporary = file === ':memory:';
  const path = isTemporary ? join(mkdtempSync(join(tmpdir(), 'mds-memory-')), 'mds.sqlite') : file;
  const database = openDatabase(path);
  const reader = openReader(database);
  // Two connections cannot share a database in memory. A file without a name is as good.
  if (isTemporary) {
    database.$client.pragma('synchronous = OFF');
    rmSync(dirname(path), { recursive: true });
  }
  return { writer: database.$client, reader };
}

/** Returns the deployment of the database. The first call creates a new one. */
function deploymentOf(client: Database): Deployment {
  const make = client.transaction(() => {
    const known = client.prepare('SELECT id FROM deployments').pluck().get() as string | undefined;
    const id = known ?? newDeploymentId();
    if (known === undefined) {
      client.prepare('INSERT INTO deployments (id, created_at_ms) VALUES (?, ?)').run(id, Date.now());
    }
    return { id, hasMedia: client.prepare('SELECT 1 FROM media LIMIT 1').get() !== undefined };
  });
  return make.immediate();
}
