import { Pool, type QueryResult, type QueryResultRow } from 'pg';
import type { Logger } from '../../base/logger.ts';
import type { DatabaseSettings } from '../../db/postgres/settings.ts';
import type { QueueEngine } from './queue-engine.ts';

/** First number of the advisory lock of whoever compares rows and engine ("MDSJ"); the second one is the queue's. */
const ALONE_KEY = 0x4d44534a;

/** Connections of the queue to the database that the rows are in. @param options.settings as `options` of a connection has them */
export function openQueuePool(
  { connection }: DatabaseSettings,
  options: { logger: Logger; max: number; settings?: string },
): Pool {
  const { logger, max, settings = '' } = options;
  // Of settings that are named twice, the last one holds.
  const all = `${connection.options} ${settings}`.trim();
  const pool = new Pool({ ...connection, options: all, application_name: 'mds-queue', max });
  // Of a connection that breaks while it is in use, its user hears by what was asked.
  pool.on('connect', (client) => client.on('error', () => undefined));
  // One that broke while nobody used it is replaced when somebody does. The error holds the whole client: only its words are told.
  pool.on('error', ({ message }) =>
    logger.warn({ reason: message }, 'the job engine lost a connection to its database'),
  );
  return pool;
}

/**
 * {@link QueueEngine.alone} by an advisory lock of the database: it ends with the connection of whoever holds it. Wherever the engine keeps
 * its copies, the rows that they are compared with are there.
 */
export function createAlone(pool: Pool, queue: string): QueueEngine['alone'] {
  return async (work) => {
    const client = await pool.connect();
    const keys = [ALONE_KEY, queue];
    /** Of a connection on which the lock's own questions failed nobody knows whether it has the lock: it is ended, and what it has with it. */
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
