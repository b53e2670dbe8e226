import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Client, createClient } from '@mds/client';
import { endWithParent } from './child-guard.ts';
import {
  findPostgres,
  type PostgresServer,
  type PostgresServerOptions,
  startPostgresServer,
} from './postgres-server.ts';
import { nodeArguments } from './programs-under-test.ts';
import { findS3Server, S3_SERVER, type S3Server, startS3Server } from './s3-server.ts';
import { type ServiceProcess, spawnService } from './service-process.ts';
import { describeWith } from './system-program.ts';

/** `describe` over the servers that nodes share. Skipped, by its name, if this machine has none. */
export function describeNodes(title: string, tests: (bin: string) => void): void {
  const bin = findPostgres();
  const found = findS3Server() === null ? null : bin;
  describeWith(found, `PostgreSQL and ${S3_SERVER}`)(title, () => tests(bin ?? ''));
}

/** The operator's token, the same for all nodes. */
export const TOKEN = 'a-token-for-several-nodes';

const PRESETS = [
  { name: 'thumb', container: 'webp', width: 32, height: 32 },
  // Several pieces if the image is noise.
  { name: 'large', container: 'jpeg', width: 1600, height: 1600, quality: 100 },
];

/** One request of the upload protocol (tus 1.0.0), as the operator; with a body it is a PATCH's piece. */
export function tus(method: string, url: string, headers: Record<string, string>, piece?: Buffer): Promise<Response> {
  return fetch(url, {
    method,
    headers: {
      ...{ authorization: `Bearer ${TOKEN}`, 'tus-resumable': '1.0.0' },
      ...(piece ? { 'content-type': 'application/offset+octet-stream' } : {}),
      ...headers,
    },
    ...(piece ? { body: new Uint8Array(piece) } : {}),
  });
}

/** A worker alone in its process. */
export interface WorkerProcess {
  child: ChildProcess;
  stderr(): string;
  end(signal: NodeJS.Signals): Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
}

/** Settings that all nodes share. */
export interface SeveralNodesOptions {
  postgres?: PostgresServerOptions;
  /** In the form of a presets file; two pictures otherwise. */
  presets?: readonly object[];
  /** Further settings of all nodes except points of presence. */
  env?: Record<string, string>;
  /** The built program, or the source; default: that of this run. */
  built?: boolean;
}

/** Nodes on one PostgreSQL and one S3 bucket, each a process of its own with a data folder of its own. */
export interface SeveralNodes {
  readonly folder: string;
  readonly postgres: PostgresServer;
  /** URL of the nodes' database. */
  readonly databaseUrl: string;
  readonly s3: S3Server;
  readonly bucket: string;
  /** An api and edge; with a worker only if `env` sets it. A name that was used before gets its folder again. */
  startApi(name: string, env?: Record<string, string>): Promise<ServiceProcess>;
  startWorker(name: string, env?: Record<string, string>): Promise<WorkerProcess>;
  startEdge(
    name: string,
    region: string,
    origin: { url: string },
    env?: Record<string, string>,
  ): Promise<ServiceProcess>;
  clientOf(node: ServiceProcess): Client;
  /** Kills all nodes, and removes the folders. */
  stop(): Promise<void>;
}

/** @param bin folder of PostgreSQL's programs */
export async function startSeveralNodes(bin: string, options: SeveralNodesOptions = {}): Promise<SeveralNodes> {
  const folder = await mkdtemp(join(tmpdir(), 'mds-nodes-'));
  await writeFile(join(folder, 'presets.json'), JSON.stringify(options.presets ?? PRESETS));
  const [postgres, s3] = await Promise.all([startPostgresServer(bin, options.postgres), startS3Server()]);
  const [databaseUrl, bucket] = await Promise.all([postgres.createDatabase(), s3.createBucket()]);
  const shared = {
    ...s3.environment,
    MDS_DATABASE_URL: databaseUrl,
    MDS_STORAGE_URL: `s3://${bucket}/media`,
    MDS_CONTROL_TOKEN: TOKEN,
    MDS_PRESETS: join(folder, 'presets.json'),
    ...options.env,
  };
  const { built } = options;
  const running = new Set<{ child: ChildProcess }>();

  return {
    folder,
    postgres,
    databaseUrl,
    s3,
    bucket,

    async startApi(name, env = {}) {
      const service = await spawnService({
        dataDir: join(folder, name),
        built,
        env: { ...shared, MDS_ROLES: 'api,edge', ...env },
      });
      running.add(service);
      return service;
    },

    async startWorker(name, env = {}) {
      const worker = await spawnWorker(join(folder, name), built, { ...shared, ...env });
      running.add(worker);
      return worker;
    },

    async startEdge(name, region, origin, env = {}) {
      const settings = { MDS_ROLES: 'edge', MDS_ORIGIN_URL: origin.url, MDS_REGION: region, MDS_CONTROL_TOKEN: TOKEN };
      const edge = await spawnService({ dataDir: join(folder, name), built, env: { ...settings, ...env } });
      running.add(edge);
      return edge;
    },

    clientOf: ({ url }) => createClient({ baseUrl: url, token: TOKEN }),

    async stop() {
      for (const { child } of running) await endOf(child, 'SIGKILL');
      await s3.stop();
      await postgres.stop();
      await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
    },
  };
}

/** Starts `main` as a worker. It reports nothing when it is ready. */
async function spawnWorker(
  dataDir: string,
  built: boolean | undefined,
  env: Record<string, string>,
): Promise<WorkerProcess> {
  // A node inherits the variables that locate programs, and no settings of the test.
  const { PATH = '', HOME = '' } = process.env;
  const child = spawn(process.execPath, nodeArguments('server', built), {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { PATH, HOME, MDS_DATA_DIR: dataDir, MDS_ROLES: 'worker', MDS_LOG_LEVEL: 'info', ...env },
  });
  endWithParent(child);
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  return { child, stderr: () => stderr, end: (signal) => endOf(child, signal) };
}

async function endOf(child: ChildProcess, signal: NodeJS.Signals) {
  if (child.exitCode === null && child.signalCode === null) {
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
  }
  return { code: child.exitCode, signal: child.signalCode };
}
