import { createHash } from 'node:crypto';
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pino } from 'pino';
import { ulid } from 'ulid';
import { onTestFinished } from 'vitest';
import type { FetchRecord, NewFetch } from '../db/fetch-repository.ts';
import type { IngestFixture } from '../ingest/ingest.fixture.ts';
import { createStagingSpace, type StagingSpace } from '../ingest/staging-space.ts';
import { createDownload } from './download.ts';
import { createFetchRunner, type FetchRunner, type FetchRunnerParts } from './fetch-runner.ts';
import type { IdleLimit } from './idle-limit.ts';
import { createWeb } from './web.ts';

/** Differences from a production runner; the one here is faster and may connect to loopback. */
export interface RunnerOptions extends Partial<FetchRunnerParts> {
  maxBytes?: number;
  idleLimit?: IdleLimit;
  space?: StagingSpace;
}

/** Runners over a real database, ingest and network. */
export interface RunnerFixture {
  log: string[];
  /** Starts a runner that stops with the test. */
  run(options?: RunnerOptions): Promise<FetchRunner>;
  /** Puts a fetch into the queue. */
  add(sourceUrl: string, changes?: Partial<NewFetch>): Promise<string>;
  find(id: string): Promise<FetchRecord>;
  /** The fetch after it has ended. */
  over(runner: FetchRunner, id: string): Promise<FetchRecord>;
  /** Names of the stored parts. */
  parts(): Promise<string[]>;
}

/** The environment of a runner, on top of an ingest. */
export function runnerFixture(ingest: IngestFixture): RunnerFixture {
  const uploadsDir = () => join(ingest.root, 'uploads');
  const log: string[] = [];
  const logger = pino({ level: 'trace' }, { write: (line: string) => void log.push(line) });
  const find = async (id: string) => {
    const found = await ingest.repositories.fetches.find(id);
    if (found === null) throw new Error(`There is no fetch ${id}.`);
    return found;
  };
  return {
    log,
    async run({ maxBytes = 20_000_000, idleLimit = { idleMs: 5_000, minBytes: 1 }, space, ...parts } = {}) {
      const folder = uploadsDir();
      await mkdir(folder, { recursive: true });
      const runner = createFetchRunner({
        fetches: ingest.repositories.fetches,
        media: ingest.repositories.media,
        ingest: ingest.makeIngest(),
        download: createDownload({
          ...{ source: createWeb({ allow: ['127.0.0.1'] }), maxBytes, idleLimit },
          space: space ?? createStagingSpace({ folder, maxBytes: 0, minFreeBytes: 0 }),
        }),
        uploadsDir: folder,
        ...{ concurrency: 2, timeoutMs: 60_000, logger, intervalMs: 50 },
        retryRules: { maxWithoutProgress: 3, maxInterrupted: 10, maxAttempts: 100, firstDelayMs: 5 },
        ...parts,
      });
      await runner.start();
      onTestFinished(() => runner.stop());
      return runner;
    },
    async add(sourceUrl, changes = {}) {
      const admission = await ingest.repositories.fetches.add(
        {
          ...{ id: `fch_${ulid().toLowerCase()}`, projectId: 'default', createdAtMs: Date.now(), sourceUrl },
          ...{ filename: 'a.png', duplicate: 'existing', idempotencyKey: null },
          requestSha256: createHash('sha256').update(sourceUrl).digest('hex'),
          ...changes,
        },
        { maxWaiting: 100 },
      );
      if (!('fetch' in admission)) throw new Error(`The fetch was not added: ${admission.outcome}`);
      return admission.fetch.id;
    },
    find,
    async over(runner, id) {
      runner.wake();
      await runner.settled(id, { timeoutMs: 60_000, signal: new AbortController().signal });
      return find(id);
    },
    parts: () => readdir(uploadsDir()),
  };
}
