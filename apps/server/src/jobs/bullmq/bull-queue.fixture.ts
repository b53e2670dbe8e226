import { Client } from 'pg';
import { ulid } from 'ulid';
import { afterAll, afterEach, beforeAll, describe } from 'vitest';
import { findPostgres, type PostgresServer, startPostgresServer } from '../../../test/postgres-server.ts';
import { testWith } from '../../../test/system-program.ts';
import type { NewMedia } from '../../db/media-repository.ts';
import { openPostgresRepositories } from '../../db/postgres/open-repositories.ts';
import type { Repositories } from '../../db/repositories.ts';
import { createLogger } from '../../logger.ts';
import type { Lease } from '../job-queue.ts';
import { type BullQueueOptions, openBullQueue } from './open-bull-queue.ts';

/** Accepting: the same bytes are another medium. */
const ALLOW = { duplicate: 'allow', idempotencyKey: null } as const;
/** Comparing in the background is off: a test compares when it wants to. */
export const BY_HAND = { intervalMs: Number.POSITIVE_INFINITY };
const logger = createLogger('silent');

/** A suite over one PostgreSQL of its own; where this machine has none, a test that is skipped and says so. */
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

/** What the jobs are rows of, without BullMQ. */
export function openRows(url: string): Promise<Repositories> {
  return openPostgresRepositories(url, { logger });
}

/** Opens queues and closes them after each test. */
export function bullQueues(server: () => PostgresServer) {
  const closing: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });
  const closeLater = (close: () => Promise<unknown>) => closing.push(close);

  return {
    closeLater,
    database: () => server().createDatabase(),
    /** As another node of the service does. */
    async open(url: string, options: Partial<BullQueueOptions> = {}): Promise<Repositories> {
      const repositories = options.repositories ?? (await openRows(url));
      const opened = await openBullQueue({ url, logger, timing: BY_HAND, ...options, repositories });
      closeLater(() => opened.close());
      return opened;
    },
    /** Asks the database itself. */
    async ask<Row>(url: string, query: string): Promise<Row[]> {
      const client = new Client({ connectionString: url });
      await client.connect();
      try {
        return (await client.query(query)).rows as Row[];
      } finally {
        await client.end();
      }
    },
  };
}

/** What BullMQ has, oldest first. */
export const BULL_JOBS = 'SELECT id, state::text AS state, lock_token, failed_reason FROM bullmq.job ORDER BY seq';
export interface BullJob {
  id: string;
  state: string;
  lock_token: string | null;
  failed_reason: string | null;
}

export const newMedium = (): NewMedia => ({
  ...{ id: `med_${ulid().toLowerCase()}`, projectId: 'default', createdAtMs: 0, contentType: 'image/png', bytes: 1 },
  ...{ width: 1, height: 1, filename: null, sha256: 'a'.repeat(64), kind: 'image', format: 'png', durationMs: null },
  ...{ codecs: [], warnings: [], identified: {} },
});

/** Takes a medium in. @returns its id */
export async function accept({ media }: Pick<Repositories, 'media'>, priority?: number): Promise<string> {
  const accepted = await media.accept(newMedium(), priority === undefined ? ALLOW : { ...ALLOW, priority });
  return accepted.media.id;
}

export async function claim({ jobs }: Pick<Repositories, 'jobs'>, worker = 'worker-1'): Promise<Lease> {
  const lease = await jobs.claim(worker);
  if (lease === null) throw new Error('There is nothing to claim.');
  return lease;
}

/** What a run that made nothing hands over. */
export const NOTHING_MADE = { renditions: [], thumbhash: null, warnings: [] };
