import { setTimeout as sleep } from 'node:timers/promises';
import { Client, type ClientBase, Pool } from 'pg';
import { AppError } from '../../base/app-error.ts';
import type { Logger } from '../../base/logger.ts';
import { systemCode } from '../../base/storage-error.ts';
import { DatabaseRefusedError, DatabaseUnreachableError } from '../database-refused-error.ts';
import type { SchemaState } from '../migrations.ts';
import { DEFAULT_PROJECT_RECORD } from '../project-repository.ts';
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
import { type DatabaseSettings, databaseSettings, OPENING_NAME, PATIENCE_MS } from './settings.ts';

/** Connections of a process, beside the one that listens. Each is a process of the server's. */
const CONNECTIONS = 10;
/** Of these, as many are taken at most by what may wait for somebody's lock: the others are for those who read. */
const WRITING_CONNECTIONS = 6;
/** How long a server may take to come up after this process has: they may be started together. In milliseconds. */
const START_PATIENCE_MS = 15_000;
const START_PAUSE_MS = 250;
/** Readiness and status want to know soon whether the database can be written. */
const PROBE_PATIENCE_MS = 1_000;

/**
 * Opens a PostgreSQL database, brings its schema up to date, and opens every repository over it.
 * @param databaseUrl see {@link databaseSettings}
 * @param options.startPatienceMs how long it waits for a server that is about to come up
 * @throws DatabaseRefusedError where the database is not one to touch, or cannot be reached
 */
export async function openPostgresRepositories(
  databaseUrl: string,
  { logger, startPatienceMs = START_PATIENCE_MS }: { logger: Logger; startPatienceMs?: number },
): Promise<Repositories> {
  const settings = databaseSettings(databaseUrl);
  const deployment = await onOneConnection(settings, startPatienceMs, async (client) => {
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
  const writing = sharePool(pool, { most: WRITING_CONNECTIONS, patienceMs: PATIENCE_MS });
  try {
    const listener = await startChangeListener({ connection: settings.connection, pool, changes, logger });
    const dialect = createPostgresDialect({ pool, writing, listening: listener.queries, changes });
    const { probe } = resilient({
      async probe() {
        await Promise.race([writeProbe(writing), overdue(PROBE_PATIENCE_MS)]);
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
 * Which steps of the schema the database has had, and which opening it would take.
 * @throws DatabaseRefusedError where the database is not one to touch, or cannot be reached
 */
export function inspectPostgres(databaseUrl: string, startPatienceMs = START_PATIENCE_MS): Promise<SchemaState> {
  const settings = databaseSettings(databaseUrl);
  return onOneConnection(settings, startPatienceMs, (client) => inspectSchema(client, settings));
}

/** Waits for the server, and does something on a connection that is for this alone. */
async function onOneConnection<T>(
  settings: DatabaseSettings,
  patienceMs: number,
  work: (client: ClientBase) => Promise<T>,
): Promise<T> {
  const deadline = performance.now() + patienceMs;
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

/** Whether waiting helps: not where the server answers that user, password or database are wrong. */
function mayComeUp(error: unknown): boolean {
  const code = systemCode(error) ?? '';
  return isUnavailable(error) && !code.startsWith('28') && code !== '3D000';
}

function refusal(error: unknown, { shown }: DatabaseSettings): unknown {
  if (error instanceof DatabaseRefusedError) return error;
  // Of `pg`, which gives it no code.
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

async function overdue(patienceMs: number): Promise<never> {
  await sleep(patienceMs, undefined, { ref: false });
  throw new AppError('unavailable', 'The database does not answer in time.', { headers: { 'Retry-After': '5' } });
}
