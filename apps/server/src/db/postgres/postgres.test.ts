import { pino } from 'pino';
import { afterAll, beforeAll } from 'vitest';
import { findPostgres, type PostgresServer, startPostgresServer } from '../../../test/postgres-server.ts';
import { describeWith } from '../../../test/system-program.ts';
import { repositoriesConformance } from '../conformance/repositories.conformance.ts';
import { openPostgresRepositories } from './open-repositories.ts';

const bin = findPostgres();
const logger = pino({ level: 'silent' });

describeWith(bin, 'PostgreSQL')('over a PostgreSQL server', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgresServer(bin ?? '');
  });
  afterAll(() => server.stop());

  repositoriesConformance('PostgreSQL', async () =>
    openPostgresRepositories(await server.createDatabase(), { logger }),
  );
});
