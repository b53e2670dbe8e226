import { Client } from 'pg';
import { afterAll, beforeAll } from 'vitest';
import { findPostgres, type PostgresServer, startPostgresServer } from '../../../test/support/postgres-server.ts';
import { describeWith } from '../../../test/support/system-program.ts';
import { repositoriesConformance } from '../conformance/repositories.conformance.ts';
import { openPostgresRepositories } from './open-repositories.ts';
import { silent } from './postgres.fixture.ts';

const bin = findPostgres();

describeWith(bin, 'PostgreSQL')('on a PostgreSQL server', () => {
  let server: PostgresServer;
  let url: string;
  beforeAll(async () => {
    server = await startPostgresServer(bin ?? '');
    url = await server.createDatabase();
  });
  afterAll(() => server.stop());

  /** Empties the one database for each test. Creating one takes longer than most tests. */
  const empty = async () => {
    const client = new Client({ connectionString: url });
    await client.connect();
    try {
      const names = `SELECT string_agg(quote_ident(tablename), ', ') AS names FROM pg_tables
        WHERE schemaname = 'public' AND tablename <> '__drizzle_migrations'`;
      const [tables] = (await client.query<{ names: string | null }>(names)).rows;
      if (tables?.names) await client.query(`TRUNCATE ${tables.names} RESTART IDENTITY`);
    } finally {
      await client.end();
    }
  };

  repositoriesConformance('PostgreSQL', async () => {
    await empty();
    return openPostgresRepositories(url, { logger: silent });
  });
});
