import { once } from 'node:events';
import { Client } from 'pg';
import { createLogger } from '../../src/base/logger.ts';
import { openPostgresRepositories } from '../../src/db/postgres/open-repositories.ts';
import { proveFormatsInto } from './known-formats.ts';
import { findPostgres, startPostgresServer } from './postgres-server.ts';
import { findS3Server, S3_SERVER, startS3Server } from './s3-server.ts';

// Runs a PostgreSQL and an S3 server for its parent. It prints one line, the environment that a test needs, and stops the servers at the
// end of its standard input. With `--look` it only checks that this machine has them, and exits with 0 if so.
const bin = findPostgres();
const missing = bin === null ? 'PostgreSQL' : findS3Server() === null ? S3_SERVER : null;
if (bin === null || missing !== null) {
  process.stderr.write(`${missing} is not on this machine.\n`);
  process.exit(1);
}
if (process.argv.includes('--look')) process.exit(0);
const postgres = await startPostgresServer(bin, { settings: { max_connections: '500' } });
try {
  const s3 = await startS3Server();
  try {
    const environment = {
      ...s3.environment,
      MDS_TEST_POSTGRES: await postgres.createDatabase(),
      MDS_TEST_TEMPLATE: await makeTemplate(await postgres.createDatabase()),
    };
    process.stdout.write(`${JSON.stringify(environment)}\n`);
    await once(process.stdin.resume(), 'end');
  } finally {
    await s3.stop();
  }
} finally {
  await postgres.stop();
}

/** Prepares a database with the proofs of `known-formats.ts`. @returns its name */
async function makeTemplate(url: string): Promise<string> {
  const repositories = await openPostgresRepositories(url, { logger: createLogger('silent') });
  try {
    await proveFormatsInto(repositories);
  } finally {
    await repositories.close();
  }
  // Each copy is of a deployment of its own.
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query('DELETE FROM deployments').finally(() => client.end());
  return new URL(url).pathname.slice(1);
}
