import { ConfigError } from '../../config.ts';
import { DatabaseRefusedError } from '../../db/database-refused-error.ts';
import { databaseSettings } from '../../db/postgres/settings.ts';
import type { Logger } from '../../logger.ts';
import { systemCode } from '../../storage/storage-error.ts';
import { BULLMQ_SCHEMA, createBullEngine } from './bull-engine.ts';
import type { QueueEngine } from './queue-engine.ts';

/** Of the queue in BullMQ. */
const QUEUE = 'mds-media';
/** Connections to the database, the one on which BullMQ listens among them. */
const MAX_CONNECTIONS = 6;

export interface BullEngineOptions {
  /** `postgres://…`, of the database that the rows are in. */
  url: string;
  logger: Logger;
  /** How long a job that is out is locked in BullMQ; see `createBullEngine`. */
  lockMs?: number;
  /** Default: the package. */
  load?: () => Promise<typeof import('bullmq')>;
}

/**
 * Loads BullMQ, brings its tables up to date (any number of nodes may do so at once), and opens the queue.
 * @throws ConfigError where BullMQ is not installed
 */
export async function openBullEngine(options: BullEngineOptions): Promise<QueueEngine> {
  const { url, logger, lockMs, load = () => import('bullmq') } = options;
  const bull = await load().catch((cause: unknown) => {
    if ((cause as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw cause;
    const problem = 'MDS_QUEUE: bullmq asks for the package bullmq, which is not installed.';
    throw new ConfigError([`${problem} Install it (npm install bullmq), or leave MDS_QUEUE away.`], { cause });
  });
  const { Pool } = await import('pg');
  const { connection, schema, shown } = databaseSettings(url);
  // Of settings that are named twice, the last one holds. What a server's death undoes here is made good from the rows, as these are
  // copies of them: nobody waits for the disk.
  const settings = `${connection.options} -c search_path=${BULLMQ_SCHEMA} -c synchronous_commit=off`;
  const pool = new Pool({ ...connection, options: settings, application_name: 'mds-queue', max: MAX_CONNECTIONS });
  // Of a connection that breaks while it is in use, its user hears by what was asked.
  pool.on('connect', (client) => client.on('error', () => undefined));
  // One that broke while nobody used it is replaced when somebody does. The error holds the whole client: only its words are told.
  pool.on('error', ({ message }) =>
    logger.warn({ reason: message }, 'the job engine lost a connection to its database'),
  );
  try {
    const client = await pool.connect();
    await bull.runMigrations(client, BULLMQ_SCHEMA).finally(() => client.release());
  } catch (error) {
    await pool.end();
    // 42501: insufficient_privilege.
    if (systemCode(error) !== '42501') throw error;
    throw new DatabaseRefusedError(
      `The user of MDS_DATABASE_URL lacks a right that BullMQ needs in the database ${shown}: ${(error as Error).message}. ` +
        'docs/jobs.md says which, and how to do without it.',
      { cause: error },
    );
  }
  // Several services may share a database, each in a schema of its own; they share BullMQ's tables, and have a queue each.
  const name = schema === 'public' ? QUEUE : `${QUEUE}-${schema}`;
  return createBullEngine({ bull, pool, name, logger, ...(lockMs === undefined ? {} : { lockMs }) });
}
