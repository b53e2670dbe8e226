import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import type { Repositories } from '../src/db/repositories.ts';
import { openSqliteRepositories } from '../src/db/sqlite/open-repositories.ts';
import { createLogger } from '../src/logger.ts';

/** By data folder: a service that is started again has what it had. */
const given = new Map<string, Promise<Record<string, string>>>();

/**
 * The settings of a database and a bucket of a service's own, where the run is one on PostgreSQL and S3 (`backends-setup.ts`); none
 * otherwise, and none for a point of presence.
 */
export async function ownBackends(dataDir: string, env: Record<string, string> = {}): Promise<Record<string, string>> {
  const postgres = process.env['MDS_TEST_POSTGRES'];
  if (postgres === undefined || env['MDS_ROLES'] === 'edge' || 'MDS_DATABASE_URL' in env) return {};
  const made = given.get(dataDir) ?? make(postgres);
  given.set(dataDir, made);
  return made;
}

/** The repositories of a service that was started on this folder, wherever they are; the caller closes them. */
export async function openRepositoriesOf(dataDir: string): Promise<Repositories> {
  const own = await given.get(dataDir);
  if (own === undefined) return openSqliteRepositories(join(dataDir, 'mds.sqlite'));
  const { openPostgresRepositories } = await import('../src/db/postgres/open-repositories.ts');
  return openPostgresRepositories(own['MDS_DATABASE_URL'] ?? '', { logger: createLogger('silent') });
}

async function make(postgres: string): Promise<Record<string, string>> {
  // Most runs need neither.
  const { Client } = await import('pg');
  const { CreateBucketCommand, S3Client } = await import('@aws-sdk/client-s3');
  const name = `test_${randomUUID().replaceAll('-', '')}`;
  const client = new Client({ connectionString: postgres });
  await client.connect();
  try {
    await client.query(`CREATE DATABASE ${name} TEMPLATE template0`);
  } finally {
    await client.end();
  }
  const {
    MDS_S3_ENDPOINT: endpoint = '',
    AWS_ACCESS_KEY_ID = '',
    AWS_SECRET_ACCESS_KEY = '',
    AWS_REGION = '',
  } = process.env;
  const bucket = name.replace('_', '-');
  const s3 = new S3Client({
    ...{ endpoint, region: AWS_REGION, forcePathStyle: true, requestChecksumCalculation: 'WHEN_REQUIRED' },
    credentials: { accessKeyId: AWS_ACCESS_KEY_ID, secretAccessKey: AWS_SECRET_ACCESS_KEY },
  });
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
    MDS_S3_ENDPOINT: endpoint,
    ...{ AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION },
  };
}
