import { findPostgres, startPostgresServer } from './postgres-server.ts';
import { findS3Server, S3_SERVER, startS3Server } from './s3-server.ts';

/**
 * One PostgreSQL and one S3 server for a whole run of the tests with `MDS_TEST_BACKENDS=postgres+s3`; {@link ownBackends} gives each
 * service its own database and bucket in them. Vitest calls it by this name before everything else.
 * @returns ends them
 */
export async function setup(): Promise<(() => Promise<void>) | undefined> {
  const asked = process.env['MDS_TEST_BACKENDS'] ?? '';
  if (asked === '') return undefined;
  if (asked !== 'postgres+s3') throw new Error(`MDS_TEST_BACKENDS is postgres+s3 or nothing, and not ${asked}.`);
  const bin = findPostgres();
  if (bin === null) throw new Error('MDS_TEST_BACKENDS needs PostgreSQL, which is not on this machine.');
  if (findS3Server() === null) throw new Error(`MDS_TEST_BACKENDS needs ${S3_SERVER}, which is not on this machine.`);
  const postgres = await startPostgresServer(bin, { settings: { max_connections: '500' } });
  const s3 = await startS3Server().catch(async (error: unknown) => {
    await postgres.stop();
    throw error;
  });
  // The processes that the tests run in inherit them.
  Object.assign(process.env, s3.environment, { MDS_TEST_POSTGRES: await postgres.createDatabase() });
  return async () => {
    await s3.stop();
    await postgres.stop();
  };
}
