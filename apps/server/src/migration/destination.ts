import { setTimeout as sleep } from 'node:timers/promises';
import { Client, type ClientBase } from 'pg';
import { DatabaseRefusedError } from '../db/database-refused-error.ts';
import { migrate } from '../db/postgres/migrate.ts';
import { databaseSettings, serviceName } from '../db/postgres/settings.ts';

/** A database that rows are copied into. */
export interface DestinationDatabase {
  /** What it is called in messages; without a password. */
  shown: string;
  /** All of what is written in it is there when it returns, and nothing of it where it throws. */
  transaction<T>(work: (client: ClientBase) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/**
 * A service that is started there finds that the storage is not its own, and ends: one that a supervisor starts again and again is not to
 * end the move by being met in that moment.
 */
const LEAVING_MS = 2_000;
const LEAVING_PAUSE_MS = 200;

/** What is known by more than this service: it is not to be written over. */
const OWN_TABLES = ['media', 'uploads', 'fetches'];

/**
 * Connects to the database, brings its schema up to date, and sees that nobody's media are in it.
 * @throws DatabaseRefusedError where it cannot be reached or is not one to write to
 */
export async function openDestinationDatabase(url: string): Promise<DestinationDatabase> {
  const { shown, ...settings } = databaseSettings(url);
  // All rows are one transaction, which is as long as they are many.
  const patient = { statement_timeout: 0, query_timeout: 0, idle_in_transaction_session_timeout: 0 };
  // Not that of a service: what is left for a moment of a move that was killed must not be taken for one.
  const client = new Client({ ...settings.connection, ...patient, application_name: 'mds-migration' });
  client.on('error', () => undefined);
  try {
    await client.connect();
    await migrate(client, { ...settings, shown });
    await refuseUsed(client, { shown, schema: settings.schema });
  } catch (error) {
    await client.end().catch(() => undefined);
    if (error instanceof DatabaseRefusedError) throw error;
    const reason = error instanceof Error && error.message !== '' ? error.message : 'no answer';
    throw new DatabaseRefusedError(`The database ${shown} cannot be written: ${reason}.`, { cause: error });
  }
  return {
    shown,

    async transaction(work) {
      await client.query('BEGIN');
      try {
        // Whoever wrote to it since it was looked at is done, or waits.
        await client.query(`LOCK TABLE ${OWN_TABLES.join(', ')} IN ACCESS EXCLUSIVE MODE`);
        await refuseUsed(client, { shown, schema: settings.schema });
        const result = await work(client);
        // Tables were locked meanwhile, so that one which was started waits; it has begun on what it does not know is about to come.
        await refuseRunning(client, { shown, schema: settings.schema });
        await client.query('COMMIT');
        return result;
      } catch (error) {
        await client.query('ROLLBACK').catch(() => undefined);
        throw error;
      }
    },

    close: () => client.end(),
  };
}

/** The name of a database, and the schema in it. */
interface Place {
  shown: string;
  schema: string;
}

async function refuseRunning(client: ClientBase, { shown, schema }: Place): Promise<void> {
  // A service that runs there and is empty yet has projects, tokens and regions, which are about to go. It keeps a connection to listen on.
  const deadline = performance.now() + LEAVING_MS;
  for (;;) {
    // Within a transaction the view is as it was when it was first looked at.
    await client.query('SELECT pg_stat_clear_snapshot()');
    const { rowCount: services } = await client.query(
      `SELECT 1 FROM pg_stat_activity
       WHERE datname = current_database() AND application_name = $1 AND pid <> pg_backend_pid() LIMIT 1`,
      [serviceName(schema)],
    );
    if (services === 0) return;
    if (performance.now() < deadline) {
      await sleep(LEAVING_PAUSE_MS);
      continue;
    }
    throw new DatabaseRefusedError(
      `A service is running on the database ${shown}. Nothing was changed. Stop it, and begin again.`,
    );
  }
}

async function refuseUsed(client: ClientBase, place: Place): Promise<void> {
  await refuseRunning(client, place);
  for (const table of OWN_TABLES) {
    const { rowCount } = await client.query(`SELECT 1 FROM ${table} LIMIT 1`);
    if (rowCount === 0) continue;
    throw new DatabaseRefusedError(
      `The database ${place.shown} has ${table} already. Nothing was changed. Create an empty one; the objects that are at the destination need not be copied again.`,
    );
  }
}
