import { expect, it } from 'vitest';
import { silentProxy } from '../../../test/support/silent-proxy.ts';
import { createLogger } from '../../base/logger.ts';
import { databaseSettings } from '../../db/postgres/settings.ts';
import { describeWithPostgres } from './bull-queue.fixture.ts';
import { createAlone, openQueuePool } from './queue-pool.ts';

describeWithPostgres('a task that one process runs at a time', (server) => {
  it('closes its connection if the lock may still be held, and only then', async () => {
    const url = await server().createDatabase();
    const proxy = await silentProxy(url);
    const settings = databaseSettings(proxy.url);
    Object.assign(settings.connection, { query_timeout: 500 });
    const pool = openQueuePool(settings, { logger: createLogger('silent'), max: 1 });
    try {
      // The request to unlock is lost.
      await expect(createAlone(pool, 'queue')(async () => proxy.goSilent())).rejects.toThrow();
      expect(pool.totalCount).toBe(0);
      // A failed task does not affect the connection.
      const failing = createAlone(pool, 'another')(() => Promise.reject(new Error('of the task')));
      await expect(failing).rejects.toThrow('of the task');
      expect(pool.totalCount).toBe(1);
    } finally {
      await pool.end();
      await proxy.stop();
    }
  });
});
