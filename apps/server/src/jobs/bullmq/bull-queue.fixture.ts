import { afterAll, beforeAll, describe } from 'vitest';
import { findPostgres, type PostgresServer, startPostgresServer } from '../../../test/postgres-server.ts';
import { testWith } from '../../../test/system-program.ts';
import type { Repositories } from '../../db/repositories.ts';
import { openSqliteRepositories } from '../../db/sqlite/open-repositories.ts';

/** A suite over one PostgreSQL of its own, or where this machine has none a test that is skipped and says so. */
export function describeWithPostgres(title: string, suite: (server: () => PostgresServer) => void): void {
  const bin = findPostgres();
  if (bin === null) {
    testWith(null, 'PostgreSQL')(title, async () => undefined);
    return;
  }
  describe(title, () => {
    let server: PostgresServer;
    beforeAll(async () => {
      server = await startPostgresServer(bin);
    });
    afterAll(() => server.stop());
    suite(() => server);
  });
}

export async function openRows(_url: string): Promise<Repositories> {
  return openSqliteRepositories(':memory:');
}
