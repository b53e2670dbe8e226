import { once } from 'node:events';
import { Client } from 'pg';
import { createLogger } from '../../src/base/logger.ts';
import { openPostgresRepositories } from '../../src/db/postgres/open-repositories.ts';
import { proveFormatsInto } from './known-formats.ts';
import { findPostgres, startPostgresServer } from './postgres-server.ts';
import { findS3Server, S3_SERVER, startS3Server } from './s3-server.ts';

// A PostgreSQL and an S3 server for the process that started this one: it writes one line, what the environment of a test needs to use
// them, and ends them when its standard input ends. With `--look` it only says whether they are on this machine: it ends with 0 where they are.
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

/** Gives a database what `known-formats.ts` has services begin with. @returns its name */
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
