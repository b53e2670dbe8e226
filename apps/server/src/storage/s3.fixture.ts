import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { pino } from 'pino';
import { afterAll, beforeAll, onTestFinished } from 'vitest';
import { type FaultyS3Proxy, startFaultyS3Proxy } from '../../test/support/faulty-s3-proxy.ts';
import { findS3Server, S3_SERVER, type S3Server, startS3Server } from '../../test/support/s3-server.ts';
import type { ObjectStore } from './object-store.ts';
import { openS3ObjectStore, type S3ObjectStore } from './s3-object-store.ts';

/** Part size of the stores in tests, the smallest that S3 allows. */
export const PART_BYTES = 5 * 1024 * 1024;

/** Whether the tests of a file must be skipped because there is no server. Prints that once. */
export function withoutS3Server(what: string): boolean {
  const missing = findS3Server() === null;
  if (missing) process.stderr.write(`\nSkipped, as ${S3_SERVER} is not on this machine: ${what}\n`);
  return missing;
}

/** A store in a bucket of its own, behind a proxy that injects faults. */
export interface S3Bench {
  store: S3ObjectStore;
  proxy: FaultyS3Proxy;
  bucket: string;
  scratchDir: string;
  /** Logged lines, each as JSON. */
  log: readonly string[];
  /** Makes a staged file with this content, ready for `put`. */
  staged(content: Buffer): Promise<{ path: string; bytes: number; sha256: string }>;
  /** Opens another store on the same bucket, directly or through the proxy. */
  open(options?: Partial<Parameters<typeof openS3ObjectStore>[0]>): Promise<S3ObjectStore>;
}

/** One S3 server for the tests of a file. */
export function useS3Server(): { readonly server: S3Server; bench(options?: BenchOptions): Promise<S3Bench> } {
  let server: S3Server;
  beforeAll(async () => {
    server = await startS3Server();
  });
  afterAll(() => server.stop());
  return {
    get server() {
      return server;
    },
    bench: (options = {}) => openBench(server, options),
  };
}

type BenchOptions = Partial<Pick<Parameters<typeof openS3ObjectStore>[0], 'limits' | 'staleUploadMs'>>;

async function openBench(server: S3Server, options: BenchOptions): Promise<S3Bench> {
  const folder = await mkdtemp(join(tmpdir(), 'mds-s3-store-'));
  const proxy = await startFaultyS3Proxy(server);
  const bucket = await server.createBucket();
  const scratchDir = join(folder, 'scratch');
  const log: string[] = [];
  const logger = pino({ level: 'info' }, { write: (line: string) => void log.push(line) });
  const stores: S3ObjectStore[] = [];
  const open: S3Bench['open'] = async (other = {}) => {
    const { access } = server;
    const url = `s3://${bucket}/objects`;
    const opened = await openS3ObjectStore({
      ...{ url, endpoint: proxy.endpoint, access, scratchDir, logger, partBytes: PART_BYTES },
      ...options,
      ...other,
    });
    stores.push(opened);
    return opened;
  };
  onTestFinished(async () => {
    for (const store of stores) store.close();
    await proxy.stop();
    await rm(folder, { recursive: true });
  });
  let files = 0;
  return {
    ...{ store: await open(), proxy, bucket, scratchDir, log, open },
    async staged(content) {
      const path = join(folder, `staged-${files++}`);
      await writeFile(path, content);
      return { path, bytes: content.length, sha256: sha256Of(content) };
    },
  };
}

/** SHA-256 in lower-case hex. */
export function sha256Of(content: Buffer): string {
  return createHash('sha256').update(content).digest('hex');
}

/** Random bytes. */
export function someBytes(count: number): Buffer {
  return randomBytes(count);
}

/** Reads a whole object by its stream, or returns null. */
export async function readOf(store: Pick<ObjectStore, 'read'>, key: string): Promise<Buffer | null> {
  const found = await store.read(key);
  return found && buffer(found.stream);
}
