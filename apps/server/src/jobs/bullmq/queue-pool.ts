import { Pool, type QueryResult, type QueryResultRow } from 'pg';
import type { Logger } from '../../base/logger.ts';
import type { DatabaseSettings } from '../../db/postgres/settings.ts';
import type { QueueEngine } from './queue-engine.ts';

/** First number of the advisory lock of the reconciler ("MDSJ"); the second one is the queue's. */
const ALONE_KEY = 0x4d44534a;

/** Connections of the queue to the database of the rows. @param options.settings in the form of a connection's `options` */
export function openQueuePool(
  { connection }: DatabaseSettings,
  options: { logger: Logger; max: number; settings?: string },
): Pool {
  const { logger, max, settings = '' } = options;
  // If a setting is given twice, the last one counts.
  const all = `${connection.options} ${settings}`.trim();
  const pool = new Pool({ ...connection, options: all, application_name: 'mds-queue', max });
  // If a connection breaks in use, its query fails.
  pool.on('connect', (client) => client.on('error', () => undefined));
  // If an idle connection breaks, it is replaced at its next use. The error holds the whole client: only its message is logged.
  pool.on('error', ({ message }) => logger.warn({ reason: message }, 'job engine lost a connection to its database'));
  return pool;
}

/**
 * {@link QueueEngine.alone} by an advisory lock of the database, which ends with its holder's connection. The lock is in the database of
 * the rows, wherever the engine keeps its copies.
 */
export function createAlone(pool: Pool, queue: string): QueueEngine['alone'] {
  return async (work) => {
    const client = await pool.connect();
    const keys = [ALONE_KEY, queue];
    /** After a failed lock query it is unknown whether the connection has the lock: it is closed, which releases the lock. */
    const sure = async <Row extends QueryResultRow>(question: string): Promise<QueryResult<Row>> => {
      try {
        return await client.query<Row>(question, keys);
      } catch (error) {
        broken = true;
        throw error;
      }
    };
    let broken = false;
    try {
      const asked = await sure<{ got: boolean }>('SELECT pg_try_advisory_lock($1, hashtext($2)) AS got');
      if (!asked.rows[0]?.got) return null;
      try {
        return await work();
      } finally {
        await sure('SELECT pg_advisory_unlock($1, hashtext($2))');
      }
    } finally {
      client.release(broken);
    }
  };
}
