import { once } from 'node:events';
import { findPostgres, startPostgresServer } from './postgres-server.ts';
import { findS3Server, S3_SERVER, startS3Server } from './s3-server.ts';

// A PostgreSQL and an S3 server for the process that started this one: it writes one line, what the environment of a test needs to use
// them, and ends them when its standard input ends.
const bin = findPostgres();
if (bin === null) throw new Error('MDS_TEST_BACKENDS needs PostgreSQL, which is not on this machine.');
if (findS3Server() === null) throw new Error(`MDS_TEST_BACKENDS needs ${S3_SERVER}, which is not on this machine.`);
const postgres = await startPostgresServer(bin, { settings: { max_connections: '500' } });
try {
  const s3 = await startS3Server();
  try {
    const environment = { ...s3.environment, MDS_TEST_POSTGRES: await postgres.createDatabase() };
    process.stdout.write(`${JSON.stringify(environment)}\n`);
    await once(process.stdin.resume(), 'end');
  } finally {
    await s3.stop();
  }
} finally {
  await postgres.stop();
}
