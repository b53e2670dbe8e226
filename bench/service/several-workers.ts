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

/** What several workers share. */
export const sharedServers: readonly Need[] = [
  { called: 'PostgreSQL', isThere: () => findPostgres() !== null, hint: 'install postgresql.' },
  { called: S3_SERVER, isThere: () => findS3Server() !== null, hint: 'install python3-swift.' },
];

const TOKEN = 'a-token-for-the-benchmark';

/** A store that all share: a folder of this machine, or an S3 server on it. */
export type SharedStore = 'folder' | 's3';

/** How often a worker asked, and how long it waited for the answers altogether. */
interface WaitingTime {
  readonly calls: number;
  readonly ms: number;
}

/** What a worker says of its work when it is stopped. */
export interface WorkerReport {
  /** Each media object that it finished: when, on the clock of this machine, and how long it took, in milliseconds. */
  readonly finished: readonly { readonly atMs: number; readonly tookMs: number }[];
  readonly claims: WaitingTime;
  readonly upkeep: WaitingTime;
  readonly leaseWrites: WaitingTime;
}

/** A worker in a process of its own. */
export interface RunningWorker {
  readonly pid: number;
  /** Ends it as an operator would. */
  stop(): Promise<WorkerReport>;
}

/** A service without a worker, on servers of its own. */
export interface WorkerlessService {
  readonly client: Client;
  /** Process ids; what belongs to each descends from it. Null: there is none. */
  readonly pids: Readonly<Record<'service' | 'PostgreSQL' | 'S3 server', number | null>>;
  /** @param onFinished told of every media object that a worker has finished, and of a worker's end with the error that it is */
  startWorker(onFinished: (died: Error | null) => void): RunningWorker;
  stop(): Promise<void>;
}

/** Starts one. What PostgreSQL commits is on the disk, as where somebody counts on it. */
export async function startWorkerless(settings: {
  queue: 'embedded' | 'bullmq';
  store: SharedStore;
}): Promise<WorkerlessService> {
  const undo: (() => Promise<unknown>)[] = [];
  const stop = async () => {
    for (const step of undo.splice(0).reverse()) await step();
  };
  try {
    const folder = await mkdtemp(join(tmpdir(), 'mds-bench-workers-'));
    undo.push(() => rm(folder, { recursive: true, force: true }));
    const postgres = await startPostgresServer(findPostgres() ?? '', { fsync: true });
    undo.push(() => postgres.stop());
    const s3 = settings.store === 's3' ? await startS3Server() : null;
    undo.push(async () => s3?.stop());
    const ofS3 = s3 && { ...s3.environment, MDS_STORAGE_URL: `s3://${await s3.createBucket()}/media` };
    const env = {
      MDS_DATA_DIR: join(folder, 'data'),
      MDS_DATABASE_URL: await postgres.createDatabase(),
      ...ofS3,
      MDS_CONTROL_TOKEN: TOKEN,
      MDS_QUEUE: settings.queue,
    };
    const api = await spawnService({ dataDir: env.MDS_DATA_DIR, built: true, env: { ...env, MDS_ROLES: 'api,edge' } });
    undo.push(() => api.end('SIGTERM'));
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

/** A line of the log, of those that are looked for. */
interface Line {
  readonly msg?: string;
  readonly time: number;
  readonly ms?: number;
}

/** What ships, with one engine child that renders on one thread. */
function spawnWorker(env: Record<string, string>, onFinished: (died: Error | null) => void): RunningWorker {
  const { PATH = '', HOME = '' } = process.env;
  const settings = { MDS_ROLES: 'worker', MDS_WORKER_CONCURRENCY: '1', MDS_RENDER_THREADS: '1', MDS_LOG_LEVEL: 'info' };
  const child = spawn(process.execPath, [BUILT], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { PATH, HOME, ...settings, ...env },
  });
  endWithParent(child);
  const finished: { atMs: number; tookMs: number }[] = [];
  let said = '';
  let signedOff: Omit<WorkerReport, 'finished'> | null = null;
  createInterface({ input: child.stderr }).on('line', (line) => {
    said = `${said}${line}\n`.slice(-4_000);
    if (!line.startsWith('{')) return;
    const { msg, time, ms = 0, ...rest } = JSON.parse(line) as Line;
    if (msg === 'worker stopped') signedOff = rest as typeof signedOff;
    if (msg !== 'media object is ready') return;
    finished.push({ atMs: time, tookMs: ms });
    onFinished(null);
  });
  // Later than `exit`: what it had to say may still be in the pipe when it is gone.
  const closed = once(child, 'close').then(() => {
    if (signedOff === null) onFinished(new Error(`A worker ended: ${said}`));
  });
  return {
    pid: child.pid ?? 0,
    async stop() {
      child.kill('SIGTERM');
      await closed;
      if (signedOff === null) throw new Error(`A worker did not sign off: ${said}`);
      return { finished, ...signedOff };
    },
  };
}
