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

/** Name of the queue in BullMQ. */
const QUEUE = 'mds-media';
/** Database schema of BullMQ's tables. */
const BULLMQ_SCHEMA = 'bullmq';
/** Connections to the database, including the one on which BullMQ listens. */
const MAX_CONNECTIONS = 6;

export interface BullEngineOptions {
  /** `postgres://…`, the database of the rows. */
  url: string;
  /** The Redis of BullMQ's copies; undefined: they are in the same database. */
  redis?: RedisOptions | undefined;
  logger: Logger;
  /** How long an active job is locked in BullMQ; see `createBullEngine`. */
  lockMs?: number;
  /** Default: the package. */
  load?: () => Promise<Bull>;
}

export interface RedisOptions extends Pick<RedisClientParts, 'load' | 'answerMs'> {
  /** `redis://…` */
  url: string;
  /** Deployment of the rows: several services may share a Redis, with one queue each. */
  deploymentId: string;
}

/**
 * Loads BullMQ and opens the queue. In PostgreSQL its tables are migrated, which any number of nodes may do at once.
 * @throws ConfigError if a package is not installed, or Redis refuses access
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
  // No wait for the disk: these are copies of the rows, and the reconciler restores what a dying server loses.
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
  // Several services may share a database, each in a schema of its own. They share BullMQ's tables, with one queue each.
  const name = database.schema === 'public' ? QUEUE : `${QUEUE}-${database.schema}`;
  // BullMQ has its own types for a pool, and recognizes one at run time.
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
  // For the reconciler's lock, which is in the database of the rows.
  const pool = openQueuePool(databaseSettings(url), { logger, max: 1 });
  const store = createRedisJobs({ redis, name, alone: createAlone(pool, name), close: () => pool.end() });
  return createBullEngine({
    ...{ bull, name, store, connection: redis.client },
    // A worker's second connection serves blocking calls, which are not used.
    createBackend: (queue, settings) => bull.createRedisBackend(queue, settings),
    ...(lockMs === undefined ? {} : { lockMs }),
  });
}
