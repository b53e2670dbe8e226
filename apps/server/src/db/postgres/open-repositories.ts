import { setTimeout as sleep } from 'node:timers/promises';
import { Client, type ClientBase, Pool } from 'pg';
import { AppError } from '../../base/app-error.ts';
import type { Logger } from '../../base/logger.ts';
import { systemCode } from '../../base/storage-error.ts';
import { DatabaseRefusedError, DatabaseUnreachableError } from '../database-refused-error.ts';
import { DEFAULT_PROJECT_RECORD } from '../default-project.ts';
import type { SchemaState } from '../migrations.ts';
import { createRepositories, type Repositories } from '../repositories.ts';
import { PROBE_VERSION } from '../versions.ts';
import { startChangeListener } from './change-listener.ts';
import { createSharedChanges } from './changes.ts';
import { watchConnectionWaits } from './connection-waits.ts';
import { deploymentOf } from './deployment.ts';
import { createPostgresDialect } from './dialect.ts';
import { isUnavailable, resilient } from './errors.ts';
import { inspectSchema, migrate } from './migrate.ts';
import { type PoolShare, sharePool } from './pool-share.ts';
import { type DatabaseSettings, databaseSettings, OPENING_NAME, WAIT_MS } from './settings.ts';

/** Connections of a process, besides the one that listens. Each is a process of the server. */
const CONNECTIONS = 10;
/** How many of them writers use at most, which may wait for locks. The others are for readers. */
const WRITING_CONNECTIONS = 6;
/** How long this process waits for a server that starts at the same time; in milliseconds. */
const START_WAIT_MS = 15_000;
const START_PAUSE_MS = 250;
/** Readiness and status must know soon if the database can be written. */
const PROBE_WAIT_MS = 1_000;

/**
 * Opens a PostgreSQL database, brings its schema up to date, and opens every repository over it.
 * @param databaseUrl see {@link databaseSettings}
 * @param options.startWaitMs how long it waits for a server that is starting
 * @throws DatabaseRefusedError if this program must not use the database, or cannot reach it
 */
export async function openPostgresRepositories(
  databaseUrl: string,
  { logger, startWaitMs = START_WAIT_MS }: { logger: Logger; startWaitMs?: number },
): Promise<Repositories> {
  const settings = databaseSettings(databaseUrl);
  const deployment = await onOneConnection(settings, startWaitMs, async (client) => {
    await migrate(client, settings);
    await ensureDefaultProject(client);
    return deploymentOf(client);
  });
  const changes = createSharedChanges();
  const pool = new Pool({ ...settings.connection, max: CONNECTIONS });
  // A lost connection ends nothing but itself. If it is in use, its query fails.
  pool.on('connect', (client) => client.on('error', () => undefined));
  pool.on('error', (error) => logger.warn({ code: systemCode(error) }, 'an idle connection to the database was lost'));
  const waitMs = watchConnectionWaits(pool);
  const writing = sharePool(pool, { most: WRITING_CONNECTIONS, waitMs: WAIT_MS });
  try {
    const listener = await startChangeListener({ connection: settings.connection, pool, changes, logger });
    const dialect = createPostgresDialect({ pool, writing, listening: listener.queries, changes });
    const { probe } = resilient({
      async probe() {
        await Promise.race([writeProbe(writing), overdue(PROBE_WAIT_MS)]);
      },
    });
    return {
      ...createRepositories(dialect, resilient),
      shared: true,
      deployment,
      waitMs,
      probe,
      async close() {
        await listener.close();
        await pool.end();
      },
    };
  } catch (error) {
    await pool.end();
    throw refusal(error, settings);
  }
}

/**
 * Lists the migrations that the database has had, and those that opening it would apply.
 * @throws DatabaseRefusedError if this program must not use the database, or cannot reach it
 */
export function inspectPostgres(databaseUrl: string, startWaitMs = START_WAIT_MS): Promise<SchemaState> {
  const settings = databaseSettings(databaseUrl);
  return onOneConnection(settings, startWaitMs, (client) => inspectSchema(client, settings));
}

/** Waits for the server, and runs `work` on a connection of its own. */
async function onOneConnection<T>(
  settings: DatabaseSettings,
  waitMs: number,
  work: (client: ClientBase) => Promise<T>,
): Promise<T> {
  const deadline = performance.now() + waitMs;
  for (;;) {
    const client = new Client({ ...settings.connection, query_timeout: 0, application_name: OPENING_NAME });
    client.on('error', () => undefined);
    try {
      await client.connect();
      return await work(client);
    } catch (error) {
      if (!mayComeUp(error) || performance.now() > deadline) throw refusal(error, settings);
    } finally {
      await client.end().catch(() => undefined);
    }
    await sleep(START_PAUSE_MS);
  }
}

/** Whether it helps to wait. It does not if the server answers that user, password or database are wrong. */
function mayComeUp(error: unknown): boolean {
  const code = systemCode(error) ?? '';
  return isUnavailable(error) && !code.startsWith('28') && code !== '3D000';
}

function refusal(error: unknown, { shown }: DatabaseSettings): unknown {
  if (error instanceof DatabaseRefusedError) return error;
  // An error of `pg`, which has no code.
  if (error instanceof Error && error.message === 'The server does not support SSL connections') {
    return new DatabaseRefusedError(
      `The database ${shown} offers no TLS, which MDS_DATABASE_URL asks for (sslmode). Turn it on there, or name the right server.`,
      { cause: error },
    );
  }
  if (!isUnavailable(error)) return error;
  const reason = error instanceof Error && error.message !== '' ? error.message : (systemCode(error) ?? 'no answer');
  const Refusal = mayComeUp(error) ? DatabaseUnreachableError : DatabaseRefusedError;
  return new Refusal(
    `The database ${shown} cannot be opened: ${reason}. See that it runs and that MDS_DATABASE_URL is right, then start again.`,
    { cause: error },
  );
}

/** Creates the project of hosts that belong to none, unless it exists. */
async function ensureDefaultProject(client: ClientBase): Promise<void> {
  const { id, name } = DEFAULT_PROJECT_RECORD;
  const text = 'INSERT INTO projects (id, name, created_at_ms) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING';
  await client.query(text, [id, name, Date.now()]);
}

async function writeProbe(pool: Pick<PoolShare, 'query'>): Promise<void> {
  await pool.query({
    name: 'probe',
    text: 'INSERT INTO versions (name, value) VALUES ($1, 1) ON CONFLICT (name) DO UPDATE SET value = versions.value + 1',
    values: [PROBE_VERSION],
  });
}

async function overdue(waitMs: number): Promise<never> {
  await sleep(waitMs, undefined, { ref: false });
  throw new AppError('unavailable', 'The database does not answer in time.', { headers: { 'Retry-After': '5' } });
}
