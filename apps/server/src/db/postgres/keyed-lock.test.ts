import { once } from 'node:events';
import { Client } from 'pg';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { findPostgres, type PostgresServer, startPostgresServer } from '../../../test/support/postgres-server.ts';
import { silentProxy } from '../../../test/support/silent-proxy.ts';
import { describeWith } from '../../../test/support/system-program.ts';
import { createLogger } from '../../base/logger.ts';
import { createPostgresKeyedLock } from './keyed-lock.ts';

const bin = findPostgres();

describeWith(bin, 'PostgreSQL')('the keyed lock of all nodes', () => {
  let server: PostgresServer;
  let url: string;
  beforeAll(async () => {
    server = await startPostgresServer(bin ?? '');
    url = await server.createDatabase();
  }, 120_000);
  afterAll(() => server?.stop());

  const node = (waitMs = 20_000, connectionString = url) => {
    const lock = createPostgresKeyedLock({
      ...{ connection: { connectionString }, logger: createLogger('silent'), waitMs },
      // The connection counts as silent after less than a second, not after five.
      timing: { beatMs: 160, lateMs: 100, silentBeats: 5 },
    });
    onTestFinished(() => lock.close());
    return lock;
  };
  const rows = async (text: string, values?: unknown[]): Promise<Record<string, unknown>[]> => {
    const client = new Client({ connectionString: url });
    await client.connect();
    try {
      return (await client.query(text, values)).rows;
    } finally {
      await client.end();
    }
  };
  /** A node whose connections can be cut silently. */
  const cutOffNode = async () => {
    const proxy = await silentProxy(url);
    const lock = node(20_000, proxy.url);
    onTestFinished(() => proxy.stop());
    return { lock, proxy };
  };

  it('runs tasks of one key in turn on all nodes, and those of other keys at once', async () => {
    const nodes = [node(), node()];
    let inside = 0;
    let most = 0;
    const order: string[] = [];
    const task = (name: string) => async () => {
      inside += 1;
      most = Math.max(most, inside);
      await new Promise((resolve) => setImmediate(resolve));
      order.push(name);
      inside -= 1;
    };
    await Promise.all(Array.from({ length: 30 }, (_, n) => nodes[n % 2]?.run('key', task(String(n)))));
    expect([order.length, most]).toEqual([30, 1]);

    let open: () => void = () => undefined;
    const opened = new Promise<void>((resolve) => {
      open = resolve;
    });
    const holding = nodes[0]?.run('one', () => opened);
    await nodes[1]?.run('another', async () => open());
    await holding;
  });

  it('rejects a task with unavailable if another node holds the key for too long', async () => {
    const [holder, other] = [node(), node(50)];
    await holder.run('key', async () => {
      await expect(other.run('key', async () => 'in')).rejects.toMatchObject({ code: 'unavailable' });
    });
    expect(await other.run('key', async () => 'in')).toBe('in');
  });

  it('is released if its connection is lost, and the holder is notified', async () => {
    const [dying, other] = [node(), node()];
    let taken: () => void = () => undefined;
    const has = new Promise<void>((resolve) => {
      taken = resolve;
    });
    let end: () => void = () => undefined;
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    let lost: AbortSignal | undefined;
    const holding = dying.run('key', (signal) => {
      lost = signal;
      taken();
      return ended;
    });
    await has;
    expect(lost?.aborted).toBe(false);
    const admin = new Client({ connectionString: url });
    await admin.connect();
    await admin.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()');
    expect(await other.run('key', async () => 'in')).toBe('in');
    await expect.poll(() => lost?.aborted, { timeout: 20_000 }).toBe(true);
    end();
    await holding;
    expect(await dying.run('key', async ({ aborted }) => aborted)).toBe(false);
    const gone = once(admin, 'end');
    await admin.end();
    await gone;
  });

  it('notifies a holder with a dead connection before another node gets the lock', async () => {
    const [{ lock, proxy }, other] = [await cutOffNode(), node()];
    await lock.run('key', async (lost, confirm) => {
      await confirm();
      proxy.goSilent();
      expect(await other.run('key', async () => lost.aborted)).toBe(true);
    });
  });

  it('is not confirmed over a dead connection, as another node may hold it', async () => {
    const [{ lock, proxy }, other] = [await cutOffNode(), node()];
    await lock.run('key', async (_, confirm) => {
      const [own] = await rows("SELECT pid FROM pg_locks WHERE locktype = 'advisory'");
      proxy.goSilent();
      // This is like a failover to a server that has no locks.
      await rows('SELECT pg_terminate_backend($1)', [own?.['pid']]);
      expect(await other.run('key', async () => 'in')).toBe('in');
      await expect(confirm()).rejects.toMatchObject({ code: 'unavailable' });
    });
  });

  it('is available at once on a node that replaced its dead connection', async () => {
    const { lock, proxy } = await cutOffNode();
    await lock.run('key', async () => undefined);
    proxy.goSilent();
    await expect(lock.run('another', async () => 'in')).rejects.toMatchObject({ code: 'unavailable' });
    for (let n = 0; n < 3; n++) expect(await lock.run(`key ${n}`, async () => 'in')).toBe('in');
  });

  it('is not blocked for all nodes if the answer that granted it was lost', async () => {
    const [{ lock, proxy }, other] = [await cutOffNode(), node()];
    await lock.run('another', async () => undefined);
    proxy.goSilent('answers');
    await expect(lock.run('key', async () => 'in')).rejects.toMatchObject({ code: 'unavailable' });
    expect(await rows("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'")).toHaveLength(1);
    expect(await other.run('key', async () => 'in')).toBe('in');
    expect(await lock.run('key', async () => 'in')).toBe('in');
  });

  it('is not held for ever by a node that got an error after the server granted it', async () => {
    await rows(`CREATE FUNCTION public.pg_try_advisory_lock(integer, integer) RETURNS boolean LANGUAGE plpgsql AS
      $$ BEGIN PERFORM pg_catalog.pg_try_advisory_lock($1, $2); RAISE 'too late'; END $$`);
    const options = encodeURIComponent('-c search_path=public,pg_catalog');
    const [unlucky, other] = [node(20_000, `${url}?options=${options}`), node(5_000)];
    await expect(unlucky.run('key', async () => 'in')).rejects.toMatchObject({ code: 'unavailable' });
    expect(await other.run('key', async () => 'in')).toBe('in');
  });
});
