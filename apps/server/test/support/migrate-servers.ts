import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { areBackendsRemote } from './backends.ts';
import { endWithParent } from './child-guard.ts';
import { findPostgres, type PostgresServer, startPostgresServer } from './postgres-server.ts';
import { nodeArguments } from './programs-under-test.ts';
import { findS3Server, S3_SERVER, type S3Server, startS3Server } from './s3-server.ts';
import { type ServiceProcess, spawnService } from './service-process.ts';
import { describeWith } from './system-program.ts';

/** `describe` over the servers that a deployment is moved to. Skipped, by its name, if this machine has none. */
export function describeMoves(title: string, tests: (bin: string) => void): void {
  const bin = findPostgres();
  // A move begins at a service on SQLite and the disk. A run on other backends starts none.
  const found = !areBackendsRemote && findS3Server() !== null ? bin : null;
  describeWith(found, `PostgreSQL, with ${S3_SERVER}, and an embedded service`)(title, () => tests(bin ?? ''));
}

/** A running `mds migrate-to`. */
export interface MoveCommand {
  child: ChildProcess;
  done: Promise<{ code: number | null; stdout: string; stderr: string }>;
}

/** Servers to move to, and embedded services that are moved. */
export interface MoveServers {
  readonly folder: string;
  readonly s3: S3Server;
  /** The environment of every service: one preset, and the credentials of the S3 server. */
  readonly env: Readonly<Record<string, string>>;
  /** An empty database and an empty bucket. */
  createDestination(): Promise<{ database: string; bucket: string; storage: string }>;
  start(name: string, settings?: Record<string, string>): Promise<ServiceProcess>;
  /** The operator's command. */
  migrateTo(service: ServiceProcess, to: { database: string; storage: string }): MoveCommand;
  stop(): Promise<void>;
}

export async function startMoveServers(bin: string): Promise<MoveServers> {
  const folder = await mkdtemp(join(tmpdir(), 'mds-migrate-'));
  const [postgres, s3]: [PostgresServer, S3Server] = await Promise.all([startPostgresServer(bin), startS3Server()]);
  const presets = join(folder, 'presets.json');
  await writeFile(presets, JSON.stringify([{ name: 'thumb', container: 'webp', width: 32, height: 32 }]));
  const { MDS_S3_ENDPOINT: _of, ...credentials } = s3.environment;
  const env = { ...credentials, MDS_PRESETS: presets, MDS_PUBLIC_URL: 'https://media.example.org' };
  const services: ServiceProcess[] = [];
  return {
    folder,
    s3,
    env,

    async createDestination() {
      const [database, bucket] = await Promise.all([postgres.createDatabase(), s3.createBucket()]);
      return { database, bucket, storage: `s3://${bucket}/media` };
    },

    async start(name, settings = {}) {
      const service = await spawnService({ dataDir: join(folder, name), env: { ...env, ...settings } });
      services.push(service);
      return service;
    },

    migrateTo(service, { database, storage }) {
      const argv = [...nodeArguments('mds'), 'migrate-to', '--storage', storage, '--s3-endpoint', s3.endpoint];
      const child = spawn(process.execPath, argv, {
        stdio: ['ignore', 'pipe', 'pipe'],
        env: {
          // The command has only these settings, as from a shell.
          PATH: process.env['PATH'] ?? '',
          MDS_URL: service.url,
          MDS_TOKEN: service.token,
          MDS_TARGET_DATABASE_URL: database,
        },
      });
      endWithParent(child);
      const done = Promise.all([once(child, 'exit'), text(child.stdout), text(child.stderr)]).then(
        ([[code], stdout, stderr]) => ({ code: code as number | null, stdout, stderr }),
      );
      return { child, done };
    },

    async stop() {
      await Promise.all(services.map((service) => service.end('SIGKILL')));
      await Promise.all([postgres.stop(), s3.stop()]);
      await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
    },
  };
}
