import { ConfigError } from '../../config.ts';
import type { Repositories } from '../../db/repositories.ts';
import type { Logger } from '../../logger.ts';
import { BULLMQ_SCHEMA, createBullEngine } from './bull-engine.ts';
import { createBullJobQueue } from './bull-job-queue.ts';
import { createBullMediaRepository } from './bull-media-repository.ts';
import { createFollowing } from './following.ts';
import type { QueueEngine } from './queue-engine.ts';
import { createReconciler, type ReconcilerParts } from './reconciler.ts';

/** Of the queue in BullMQ. */
const QUEUE = 'mds-media';
/** Connections to the database, the one on which BullMQ listens among them. */
const MAX_CONNECTIONS = 6;
const CONNECT_MS = 10_000;
const QUERY_MS = 60_000;

export interface BullQueueOptions {
  /** Over the database of `url`; closed with what is returned. */
  repositories: Repositories;
  /** `postgres://…`, as the repositories were opened with. */
  url: string;
  logger: Logger;
  timing?: Pick<ReconcilerParts, 'intervalMs' | 'suspectMs'> & { lockMs?: number };
  /** Default: the package. */
  load?: () => Promise<typeof import('bullmq')>;
}

/**
 * The same repositories, their jobs handed out by BullMQ, whose tables are in the schema `bullmq` of the same database and are brought up
 * to date here.
 * @throws ConfigError where BullMQ is not installed or does not take this database
 */
export async function openBullQueue(options: BullQueueOptions): Promise<Repositories> {
  const { repositories, logger, timing = {} } = options;
  const { jobs: rows, media } = repositories;
  const engine = await openEngine(options);
  const following = createFollowing({ rows, engine, logger });
  const reconciler = createReconciler({ rows, engine, logger, ...timing });
  const { reconcile } = reconciler;
  reconciler.start();
  return {
    ...repositories,
    jobs: createBullJobQueue({ rows, media, engine, following, reconcile }),
    media: createBullMediaRepository({ media, rows, following }),
    async close() {
      await reconciler.stop();
      await engine.close();
      await repositories.close();
    },
  };
}

async function openEngine({
  url,
  logger,
  timing,
  load = () => import('bullmq'),
}: BullQueueOptions): Promise<QueueEngine> {
  const bull = await load().catch((cause: unknown) => {
    throw new ConfigError(
      ['MDS_QUEUE: bullmq needs the package bullmq, which is not installed. Install it, or leave MDS_QUEUE away.'],
      { cause },
    );
  });
  const { Pool } = await import('pg');
  const { connectionString, schema } = withoutSchema(url);
  const pool = new Pool({
    ...{ connectionString, max: MAX_CONNECTIONS, connectionTimeoutMillis: CONNECT_MS, query_timeout: QUERY_MS },
    ...{ keepAlive: true, application_name: 'mds-queue', options: `-c search_path=${BULLMQ_SCHEMA}` },
  });
  // A connection that broke while nobody used it is replaced when somebody does.
  pool.on('error', ({ message }) =>
    logger.warn({ reason: message }, 'the job engine lost a connection to its database'),
  );
  try {
    const client = await pool.connect();
    await bull.runMigrations(client, BULLMQ_SCHEMA).finally(() => client.release());
  } catch (error) {
    await pool.end();
    throw error;
  }
  const name = schema === null ? QUEUE : `${QUEUE}-${schema}`;
  return createBullEngine({
    bull,
    pool,
    name,
    logger,
    ...(timing?.lockMs === undefined ? {} : { lockMs: timing.lockMs }),
  });
}

/** Several services may share a database, each with a schema of its own, and BullMQ's tables with them. */
function withoutSchema(url: string): { connectionString: string; schema: string | null } {
  const parsed = new URL(url);
  const schema = parsed.searchParams.get('schema');
  parsed.searchParams.delete('schema');
  return { connectionString: parsed.href, schema: schema === 'public' ? null : schema };
}
