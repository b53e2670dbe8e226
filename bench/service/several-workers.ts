import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type Client, createClient } from '@mds/client';
import { endWithParent } from '../../apps/server/test/support/child-guard.ts';
import { findPostgres, startPostgresServer } from '../../apps/server/test/support/postgres-server.ts';
import { findS3Server, S3_SERVER, startS3Server } from '../../apps/server/test/support/s3-server.ts';
import { BUILT, spawnService } from '../../apps/server/test/support/service-process.ts';
import type { Need } from '../benchmark.ts';
import { childNamed } from './processor-time.ts';

/** The servers that several workers share. */
export const sharedServers: readonly Need[] = [
  { called: 'PostgreSQL', isThere: () => findPostgres() !== null, hint: 'install postgresql.' },
  { called: S3_SERVER, isThere: () => findS3Server() !== null, hint: 'install python3-swift.' },
];

const TOKEN = 'a-token-for-the-benchmark';

/** The shared store: a folder of this machine, or an S3 server on it. */
export type SharedStore = 'folder' | 's3';

/** The number of a worker's queries, and the total time that it waited for the answers. */
interface WaitingTime {
  readonly calls: number;
  readonly ms: number;
}

/** The report of a worker about its work when it stops. */
export interface WorkerReport {
  /** For each media object that it finished: the time on this machine's clock, and the duration, in milliseconds. */
  readonly finished: readonly { readonly atMs: number; readonly tookMs: number }[];
  readonly claims: WaitingTime;
  readonly upkeep: WaitingTime;
  readonly leaseWrites: WaitingTime;
}

/** A worker in its own process. */
export interface RunningWorker {
  readonly pid: number;
  /** Stops it as an operator would. */
  stop(): Promise<WorkerReport>;
}

/** A service without a worker, on its own servers. */
export interface WorkerlessService {
  readonly client: Client;
  /** Process ids; each server's other processes are descendants. Null: there is no such server. */
  readonly pids: Readonly<Record<'service' | 'PostgreSQL' | 'S3 server', number | null>>;
  /** @param onFinished called for every media object that a worker has finished, and with the error if a worker dies */
  startWorker(onFinished: (died: Error | null) => void): RunningWorker;
  stop(): Promise<void>;
}

/** Starts one. PostgreSQL syncs its commits to disk, as in production. */
export async function startWorkerless(settings: {
  queue: 'embedded' | 'bullmq';
  store: SharedStore;
}): Promise<WorkerlessService> {
  const cleanups: (() => Promise<unknown>)[] = [];
  const stop = async () => {
    for (const step of cleanups.splice(0).reverse()) await step();
  };
  try {
    const folder = await mkdtemp(join(tmpdir(), 'mds-bench-workers-'));
    cleanups.push(() => rm(folder, { recursive: true, force: true }));
    const postgres = await startPostgresServer(findPostgres() ?? '', { fsync: true });
    cleanups.push(() => postgres.stop());
    const s3 = settings.store === 's3' ? await startS3Server() : null;
    cleanups.push(async () => s3?.stop());
    const ofS3 = s3 && { ...s3.environment, MDS_STORAGE_URL: `s3://${await s3.createBucket()}/media` };
    const env = {
      MDS_DATA_DIR: join(folder, 'data'),
      MDS_DATABASE_URL: await postgres.createDatabase(),
      ...ofS3,
      MDS_CONTROL_TOKEN: TOKEN,
      MDS_QUEUE: settings.queue,
    };
    const api = await spawnService({ dataDir: env.MDS_DATA_DIR, built: true, env: { ...env, MDS_ROLES: 'api,edge' } });
    cleanups.push(() => api.end('SIGTERM'));
    return {
      client: createClient({ baseUrl: api.url, token: TOKEN }),
      pids: {
        service: api.child.pid ?? 0,
        PostgreSQL: await childNamed('postgres'),
        'S3 server': s3 && (await childNamed('python3')),
      },
      startWorker: (onFinished) => spawnWorker(env, onFinished),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** A line of the log that the benchmark evaluates. */
interface Line {
  readonly msg?: string;
  readonly time: number;
  readonly ms?: number;
}

/** The built worker, with one engine child that renders on one thread. */
function spawnWorker(env: Record<string, string>, onFinished: (died: Error | null) => void): RunningWorker {
  const { PATH = '', HOME = '' } = process.env;
  const settings = { MDS_ROLES: 'worker', MDS_WORKER_CONCURRENCY: '1', MDS_RENDER_THREADS: '1', MDS_LOG_LEVEL: 'info' };
  const child = spawn(process.execPath, [BUILT], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { PATH, HOME, ...settings, ...env },
  });
  endWithParent(child);
  const finished: { atMs: number; tookMs: number }[] = [];
  let output = '';
  let signedOff: Omit<WorkerReport, 'finished'> | null = null;
  createInterface({ input: child.stderr }).on('line', (line) => {
    output = `${output}${line}\n`.slice(-4_000);
    if (!line.startsWith('{')) return;
    const { msg, time, ms = 0, ...rest } = JSON.parse(line) as Line;
    if (msg === 'worker stopped') signedOff = rest as typeof signedOff;
    if (msg !== 'media object is ready') return;
    finished.push({ atMs: time, tookMs: ms });
    onFinished(null);
  });
  // Not on `exit`: at that time, output may still be in the pipe.
  const closed = once(child, 'close').then(() => {
    if (signedOff === null) onFinished(new Error(`A worker ended: ${output}`));
  });
  return {
    pid: child.pid ?? 0,
    async stop() {
      child.kill('SIGTERM');
      await closed;
      if (signedOff === null) throw new Error(`A worker stopped without a report: ${output}`);
      return { finished, ...signedOff };
    },
  };
}
