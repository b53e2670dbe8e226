import { setTimeout as sleep } from 'node:timers/promises';
import { Client, type ClientBase } from 'pg';
import { DatabaseRefusedError } from '../db/database-refused-error.ts';
import { migrate } from '../db/postgres/migrate.ts';
import { databaseSettings, serviceName } from '../db/postgres/settings.ts';

/** A database that rows are copied into. */
export interface DestinationDatabase {
  /** Its name in messages, without a password. */
  shown: string;
  /** Runs writes in one transaction: all of them hold when it returns, none if it throws. */
  transaction<T>(work: (client: ClientBase) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/**
 * A service that starts at the destination finds that the storage is not its own, and exits. A supervisor may restart it again and again;
 * meeting it at the wrong moment must not end the move.
 */
const LEAVING_MS = 2_000;
const LEAVING_PAUSE_MS = 200;

/** Data that more than this service has created must not be overwritten. */
const OWN_TABLES = ['media', 'uploads', 'fetches'];

/**
 * Connects to the database, migrates its schema, and checks that it has no media of others.
 * @throws DatabaseRefusedError if it cannot be reached, or must not be written to
 */
export async function openDestinationDatabase(url: string): Promise<DestinationDatabase> {
  const { shown, ...settings } = databaseSettings(url);
  // All rows are written in one transaction, which takes long for many rows.
  const patient = { statement_timeout: 0, query_timeout: 0, idle_in_transaction_session_timeout: 0 };
  // Not a service's name: the connection of a killed move may stay for a moment and must not be taken for a service.
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
        // Every process that wrote since the check is done, or waits.
        await client.query(`LOCK TABLE ${OWN_TABLES.join(', ')} IN ACCESS EXCLUSIVE MODE`);
        await refuseUsed(client, { shown, schema: settings.schema });
        const result = await work(client);
        // The tables were locked meanwhile, so a service that was started waits. It must not continue on rows that are about to change.
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
  // An empty service that runs there has projects, tokens and regions, which are about to be removed. It keeps a connection to listen on.
  const deadline = performance.now() + LEAVING_MS;
  for (;;) {
    // Within a transaction, the view stays as it was at its first read.
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
