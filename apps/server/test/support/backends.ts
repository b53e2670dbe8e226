import { randomUUID } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { S3Client } from '@aws-sdk/client-s3';
import { createLogger } from '../../src/base/logger.ts';
import type { Repositories } from '../../src/db/repositories.ts';
import { openSqliteRepositories } from '../../src/db/sqlite/open-repositories.ts';
import { createLocalObjectStore } from '../../src/storage/local-object-store.ts';
import type { ObjectStore } from '../../src/storage/object-store.ts';

/**
 * The servers of this run, which `backends-setup.ts` passes to the test processes by the environment. `MDS_TEST_POSTGRES` is undefined if
 * the run is on SQLite and the disk.
 */
const {
  MDS_TEST_POSTGRES: postgres,
  MDS_TEST_TEMPLATE: template = '',
  MDS_S3_ENDPOINT = '',
  AWS_ACCESS_KEY_ID = '',
  AWS_SECRET_ACCESS_KEY = '',
  AWS_REGION = '',
} = process.env;

/** Whether the services of this run use PostgreSQL and S3 instead of SQLite and the disk. */
export const areBackendsRemote = postgres !== undefined;

/** By data folder, so that a restarted service keeps its database and bucket. */
const given = new Map<string, Promise<Record<string, string>>>();

/**
 * The settings of a database and a bucket for one service, if the run is on PostgreSQL and S3. None for a point of presence.
 */
export async function ownBackends(dataDir: string, env: Record<string, string> = {}): Promise<Record<string, string>> {
  if (postgres === undefined || env['MDS_ROLES'] === 'edge' || 'MDS_DATABASE_URL' in env) return {};
  const made = given.get(dataDir) ?? make(postgres);
  given.set(dataDir, made);
  return made;
}

/** Opens the repositories of the service on this folder, running or not. The caller closes them. */
export async function openRepositoriesOf(dataDir: string): Promise<Repositories> {
  const { MDS_DATABASE_URL: url } = await ownBackends(dataDir);
  if (url === undefined) return openSqliteRepositories(join(dataDir, 'mds.sqlite'));
  const { openPostgresRepositories } = await import('../../src/db/postgres/open-repositories.ts');
  return openPostgresRepositories(url, { logger: createLogger('silent') });
}

/** Opens the object store of the service on this folder, running or not. */
export async function openStoreOf(dataDir: string): Promise<ObjectStore & AsyncDisposable> {
  const { MDS_STORAGE_URL: url, MDS_S3_ENDPOINT: endpoint = '' } = await ownBackends(dataDir);
  if (url === undefined) {
    return {
      ...createLocalObjectStore({ root: join(dataDir, 'objects') }),
      [Symbol.asyncDispose]: async () => undefined,
    };
  }
  const { openS3ObjectStore } = await import('../../src/storage/s3-object-store.ts');
  // Beside the service's own scratch folder, which the service empties.
  const scratchDir = join(dataDir, 'scratch-of-the-test');
  const store = await openS3ObjectStore({
    url,
    endpoint,
    scratchDir,
    logger: createLogger('silent'),
    access: access(),
  });
  return { ...store, [Symbol.asyncDispose]: async () => store.close() };
}

/** Flips a bit in the middle of an object of the service on this folder. */
export async function damageObject(dataDir: string, key: string): Promise<void> {
  const { MDS_STORAGE_URL: url } = await ownBackends(dataDir);
  if (url === undefined) {
    const path = join(dataDir, 'objects', key);
    await writeFile(path, flipped(await readFile(path)));
    return;
  }
  const { GetObjectCommand, PutObjectCommand } = await import('@aws-sdk/client-s3');
  const { host: Bucket, pathname } = new URL(url);
  const at = { Bucket, Key: `${pathname.slice(1)}/${key}` };
  const s3 = await openS3Client();
  try {
    const { Body, Metadata } = await s3.send(new GetObjectCommand(at));
    const bytes = Buffer.from((await Body?.transformToByteArray()) ?? []);
    // The metadata of the store stay.
    await s3.send(new PutObjectCommand({ ...at, Body: flipped(bytes), Metadata }));
  } finally {
    s3.destroy();
  }
}

async function make(postgres: string): Promise<Record<string, string>> {
  // Most runs need neither.
  const { Client } = await import('pg');
  const { CreateBucketCommand } = await import('@aws-sdk/client-s3');
  const name = `test_${randomUUID().replaceAll('-', '')}`;
  const client = new Client({ connectionString: postgres });
  await client.connect();
  try {
    await client.query(`CREATE DATABASE ${name} TEMPLATE ${template}`);
  } finally {
    await client.end();
  }
  const bucket = name.replace('_', '-');
  const s3 = await openS3Client();
  try {
    await s3.send(new CreateBucketCommand({ Bucket: bucket }));
  } finally {
    s3.destroy();
  }
  const database = new URL(postgres);
  database.pathname = `/${name}`;
  return {
    MDS_DATABASE_URL: database.href,
    MDS_STORAGE_URL: `s3://${bucket}/objects`,
    ...{ MDS_S3_ENDPOINT, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION },
  };
}

/** Region and credentials of the S3 server of this run. */
function access() {
  return {
    region: AWS_REGION,
    credentials: { accessKeyId: AWS_ACCESS_KEY_ID, secretAccessKey: AWS_SECRET_ACCESS_KEY },
  };
}

async function openS3Client(): Promise<S3Client> {
  const { S3Client } = await import('@aws-sdk/client-s3');
  // The test server does not support bodies with trailing checksums.
  return new S3Client({
    endpoint: MDS_S3_ENDPOINT,
    forcePathStyle: true,
    requestChecksumCalculation: 'WHEN_REQUIRED',
    ...access(),
  });
}

function flipped(bytes: Buffer): Buffer {
  const middle = bytes.length >> 1;
  bytes[middle] = (bytes[middle] ?? 0) ^ 1;
  return bytes;
}
