import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import { Client } from 'pg';
import { ulid } from 'ulid';
import { afterAll, afterEach, beforeAll, describe } from 'vitest';
import { findPostgres, type PostgresServer, startPostgresServer } from '../../../test/support/postgres-server.ts';
import { findRedis, type RedisServer, startRedisServer } from '../../../test/support/redis-server.ts';
import { describeWith, testWith } from '../../../test/support/system-program.ts';
import { createLogger } from '../../base/logger.ts';
import type { Lease } from '../../db/job-queue.ts';
import type { NewMedia } from '../../db/media-repository.ts';
import { openPostgresRepositories } from '../../db/postgres/open-repositories.ts';
import type { Repositories } from '../../db/repositories.ts';
import { type BullQueueOptions, openBullQueue } from './open-bull-queue.ts';

/** Accept options: the same bytes become another media object. */
const ALLOW = { duplicate: 'allow', idempotencyKey: null } as const;
/** Turns comparisons in the background off: a test compares on demand. */
export const BY_HAND = { intervalMs: Number.POSITIVE_INFINITY };
const logger = createLogger('silent');
const program = findRedis();

/** A suite with its own PostgreSQL. Without PostgreSQL on this machine, a skipped test that names the reason. */
export function describeWithPostgres(title: string, suite: (server: () => PostgresServer) => void): void {
  const bin = findPostgres();
  if (bin === null) {
    testWith(null, 'PostgreSQL')(title, async () => undefined);
    return;
  }
  describe(title, () => {
    let server: PostgresServer;
    beforeAll(async () => {
      server = await startPostgresServer(bin);
    });
    afterAll(() => server.stop());
    suite(() => server);
  });
}

/** The servers of a suite: BullMQ stores its jobs in Redis if there is one, and in PostgreSQL otherwise. */
export interface BullServers {
  postgres: () => PostgresServer;
  redis: (() => RedisServer) | null;
}

/** A suite with BullMQ on its own Redis. The rows are still in PostgreSQL. */
export function describeWithRedis(
  title: string,
  suite: (servers: BullServers & { redis: () => RedisServer }) => void,
): void {
  describeWith(program, 'Redis')(title, () => {
    describeWithPostgres('with rows in PostgreSQL', (postgres) => suite({ postgres, redis: redisOfSuite() }));
  });
}

/** A suite that runs twice: with the jobs of BullMQ in PostgreSQL, and in Redis. */
export function describeWithEither(title: string, suite: (servers: BullServers) => void): void {
  describeWithPostgres(title, (postgres) => {
    describe('in PostgreSQL', () => suite({ postgres, redis: null }));
    describeWith(program, 'Redis')('in Redis', () => suite({ postgres, redis: redisOfSuite() }));
  });
}

function redisOfSuite(): () => RedisServer {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await startRedisServer(program ?? '');
  });
  afterAll(() => redis.stop());
  return () => redis;
}

/** Opens the repositories with the rows of the jobs, without BullMQ. */
export function openRows(url: string): Promise<Repositories> {
  return openPostgresRepositories(url, { logger });
}

/** Opens queues and closes them after each test. */
export function bullQueues({ postgres: server, redis }: BullServers) {
  const closing: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });
  const closeLater = (close: () => Promise<unknown>) => closing.push(close);
  const inRedis = () => (redis === null ? undefined : { url: redis().url });
  /** Queries the database directly. */
  const ask = async <Row>(url: string, query: string): Promise<Row[]> => {
    const client = new Client({ connectionString: url });
    await client.connect();
    try {
      return (await client.query(query)).rows as Row[];
    } finally {
      await client.end();
    }
  };
  const redisQueue = async (url: string) => {
    const [{ id } = { id: '' }] = await ask<{ id: string }>(url, 'SELECT id FROM deployments');
    return `mds-media-${id}`;
  };

  /** A database with all tables, also those of BullMQ. Creating them takes longer than most tests. */
  let template: Promise<string> | undefined;
  const prepareTemplate = async () => {
    const url = await server().createDatabase();
    const queue = await openBullQueue({ repositories: await openRows(url), url, redis: inRedis(), logger });
    await queue.close();
    // Each copy belongs to its own deployment.
    await ask(url, 'DELETE FROM deployments');
    return url;
  };

  return {
    closeLater,
    ask,
    /** The Redis option of `openBullQueue`; undefined if the jobs are in the database. */
    inRedis,
    /** The jobs of BullMQ, oldest first. */
    bullJobs: async (url: string): Promise<BullJob[]> =>
      redis === null ? ask<BullJob>(url, BULL_JOBS) : jobsInRedis(redis().url, await redisQueue(url)),
    /** The number of stored events of BullMQ. */
    async bullEvents(url: string): Promise<number> {
      if (redis !== null)
        return Number((await redis().command('XLEN', `bull:${await redisQueue(url)}:events`)).slice(1));
      const [{ events } = { events: Number.NaN }] = await ask<{ events: number }>(
        url,
        'SELECT count(*)::int AS events FROM bullmq.event',
      );
      return events;
    },
    /** Cuts the connections of BullMQ and of the comparing node. @returns their number */
    async cutBull(url: string): Promise<number> {
      const ours = "application_name IN ('mds-queue', 'mds-media') AND datname = current_database()";
      const cut = await ask(url, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE ${ours}`);
      if (redis === null) return cut.length;
      return cut.length + Number((await redis().command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')).slice(1));
    },
    /** Deletes all data of BullMQ. */
    async emptyBull(url: string): Promise<void> {
      if (redis === null) await ask(url, 'TRUNCATE bullmq.job, bullmq.event, bullmq.meta CASCADE');
      else await redis().command('FLUSHALL');
    },
    /** Creates a database with all tables and no rows. @returns its URL */
    async database(): Promise<string> {
      template ??= prepareTemplate();
      return server().createDatabase(await template);
    },
    /** Opens the queue like another node of the service. */
    async open(url: string, options: Partial<BullQueueOptions> = {}): Promise<Repositories> {
      const repositories = options.repositories ?? (await openRows(url));
      const opened = await openBullQueue({ url, redis: inRedis(), logger, timing: BY_HAND, ...options, repositories });
      closeLater(() => opened.close());
      return opened;
    },
  };
}

const BULL_JOBS = 'SELECT id, state::text AS state, lock_token, failed_reason FROM bullmq.job ORDER BY seq';
export interface BullJob {
  id: string;
  state: string;
  lock_token: string | null;
  failed_reason: string | null;
}

/** Reads the jobs through BullMQ's own interface. */
async function jobsInRedis(url: string, name: string): Promise<BullJob[]> {
  const connection = new Redis(url);
  const queue = new Queue(name, { connection });
  try {
    const found: BullJob[] = [];
    for (const state of ['wait', 'prioritized', 'delayed', 'active', 'completed', 'failed'] as const) {
      for (const { id = '', failedReason } of await queue.getJobs(state)) {
        const token = await connection.get(`${queue.qualifiedName}:${id}:lock`);
        const called = state === 'prioritized' || state === 'wait' ? 'waiting' : state;
        found.push({ id, state: called, lock_token: token, failed_reason: failedReason ?? null });
      }
    }
    return found.sort((a, b) => Number(a.id.slice(4)) - Number(b.id.slice(4)));
  } finally {
    await queue.close();
    connection.disconnect();
  }
}

export const newMedia = (): NewMedia => ({
  ...{ id: `med_${ulid().toLowerCase()}`, projectId: 'default', createdAtMs: 0, contentType: 'image/png', bytes: 1 },
  ...{ width: 1, height: 1, filename: null, sha256: 'a'.repeat(64), kind: 'image', format: 'png', durationMs: null },
  ...{ codecs: [], warnings: [], identified: {} },
});

/** Accepts a media object. @returns its id */
export async function accept({ media }: Pick<Repositories, 'media'>, priority?: number): Promise<string> {
  const accepted = await media.accept(newMedia(), priority === undefined ? ALLOW : { ...ALLOW, priority });
  return accepted.media.id;
}

export async function claim({ jobs }: Pick<Repositories, 'jobs'>, worker = 'worker-1'): Promise<Lease> {
  const lease = await jobs.claim(worker);
  if (lease === null) throw new Error('There is nothing to claim.');
  return lease;
}

/** The result of a run that made nothing. */
export const NOTHING_MADE = { renditions: [], thumbhash: null, warnings: [] };
