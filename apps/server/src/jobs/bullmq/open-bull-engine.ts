import type { Logger } from '../../base/logger.ts';
import { ConfigError } from '../../base/settings.ts';
import { systemCode } from '../../base/storage-error.ts';
import { DatabaseRefusedError } from '../../db/database-refused-error.ts';
import { databaseSettings } from '../../db/postgres/settings.ts';
import { type Bull, createBullEngine } from './bull-engine.ts';
import { createPostgresJobs } from './bull-postgres-jobs.ts';
import { createRedisJobs } from './bull-redis-jobs.ts';
import type { QueueEngine } from './queue-engine.ts';
import { createAlone, openQueuePool } from './queue-pool.ts';
import { openRedisClient, type RedisClientParts } from './redis-client.ts';
import { parseRedisUrl } from './redis-location.ts';

/** Of the queue in BullMQ. */
const QUEUE = 'mds-media';
/** The schema of the database that BullMQ keeps its tables in. */
const BULLMQ_SCHEMA = 'bullmq';
/** Connections to the database, the one on which BullMQ listens among them. */
const MAX_CONNECTIONS = 6;

export interface BullEngineOptions {
  /** `postgres://…`, of the database that the rows are in. */
  url: string;
  /** Where BullMQ keeps its copies of them; undefined: in the same database. */
  redis?: RedisOptions | undefined;
  logger: Logger;
  /** How long a job that is out is locked in BullMQ; see `createBullEngine`. */
  lockMs?: number;
  /** Default: the package. */
  load?: () => Promise<Bull>;
}

export interface RedisOptions extends Pick<RedisClientParts, 'load' | 'answerMs'> {
  /** `redis://…` */
  url: string;
  /** Of the rows: several services may share a Redis, and have a queue each. */
  deploymentId: string;
}

/**
 * Loads BullMQ, and opens the queue. In PostgreSQL its tables are brought up to date, which any number of nodes may do at once.
 * @throws ConfigError where a package is not installed, or Redis does not let us in
 */
export async function openBullEngine(options: BullEngineOptions): Promise<QueueEngine> {
  const { redis, load = () => import('bullmq') } = options;
  const bull = await load().catch((cause: unknown) => {
    if ((cause as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw cause;
    const problem = 'MDS_QUEUE: bullmq asks for the package bullmq, which is not installed.';
    throw new ConfigError([`${problem} Install it (npm install bullmq), or leave MDS_QUEUE away.`], { cause });
  });
  return redis === undefined ? openOverPostgres(bull, options) : openOverRedis(bull, redis, options);
}

async function openOverPostgres(bull: Bull, { url, logger, lockMs }: BullEngineOptions): Promise<QueueEngine> {
  const database = databaseSettings(url);
  // What a server's death undoes here is made good from the rows, as these are copies of them: nobody waits for the disk.
  const settings = `-c search_path=${BULLMQ_SCHEMA} -c synchronous_commit=off`;
  const pool = openQueuePool(database, { logger, max: MAX_CONNECTIONS, settings });
  try {
    const client = await pool.connect();
    await bull.runMigrations(client, BULLMQ_SCHEMA).finally(() => client.release());
  } catch (error) {
    await pool.end();
    // 42501: insufficient_privilege.
    if (systemCode(error) !== '42501') throw error;
    throw new DatabaseRefusedError(
      `The user of MDS_DATABASE_URL lacks a right that BullMQ needs in the database ${database.shown}: ${(error as Error).message}. ` +
        'docs/jobs.md says which, and how to do without it.',
      { cause: error },
    );
  }
  // Several services may share a database, each in a schema of its own; they share BullMQ's tables, and have a queue each.
  const name = database.schema === 'public' ? QUEUE : `${QUEUE}-${database.schema}`;
  // BullMQ describes a pool in types of its own, and knows one when it sees it.
  const connection: unknown = pool;
  if (!bull.isPgPool(connection)) throw new TypeError('BullMQ does not take the pool of the installed pg.');
  const { createPostgresBackend: createBackend } = bull;
  const store = createPostgresJobs({ pool, name, logger });
  return createBullEngine({
    bull,
    name,
    store,
    connection,
    createBackend,
    ...(lockMs === undefined ? {} : { lockMs }),
  });
}

async function openOverRedis(
  bull: Bull,
  { url: redisUrl, deploymentId, ...how }: RedisOptions,
  { url, logger, lockMs }: BullEngineOptions,
): Promise<QueueEngine> {
  const name = `${QUEUE}-${deploymentId}`;
  const redis = await openRedisClient({ location: parseRedisUrl(redisUrl), logger, ...how });
  // For the lock of whoever compares, which is where the rows are.
  const pool = openQueuePool(databaseSettings(url), { logger, max: 1 });
  const store = createRedisJobs({ redis, name, alone: createAlone(pool, name), close: () => pool.end() });
  return createBullEngine({
    ...{ bull, name, store, connection: redis.client },
    // A worker's second connection is for waiting, which nobody does.
    createBackend: (queue, settings) => bull.createRedisBackend(queue, settings),
    ...(lockMs === undefined ? {} : { lockMs }),
  });
}
