import { once } from 'node:events';
import { Client } from 'pg';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { findPostgres, type PostgresServer, startPostgresServer } from '../../../test/support/postgres-server.ts';
import { silentProxy } from '../../../test/support/silent-proxy.ts';
import { describeWith } from '../../../test/support/system-program.ts';
import { createLogger } from '../../base/logger.ts';
import { createPostgresKeyedLock } from './keyed-lock.ts';

const bin = findPostgres();

describeWith(bin, 'PostgreSQL')('a lock over all nodes', () => {
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
      // Silent after less than a second instead of five.
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
  /** One whose connections can be made to lead nowhere. */
  const cutOffNode = async () => {
    const proxy = await silentProxy(url);
    const lock = node(20_000, proxy.url);
    onTestFinished(() => proxy.stop());
    return { lock, proxy };
  };

  it('has tasks of one key run one after another, whichever node they run on, and those of other keys at once', async () => {
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

  it('says that it is busy where another has a key for too long', async () => {
    const [holder, other] = [node(), node(50)];
    await holder.run('key', async () => {
      await expect(other.run('key', async () => 'in')).rejects.toMatchObject({ code: 'unavailable' });
    });
    expect(await other.run('key', async () => 'in')).toBe('in');
  });

  it('is given back by a node that dies; one whose connection is lost is told that it has it no more, and goes on', async () => {
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

  it('whose connection leads nowhere is known to be lost before another node has it, which is soon', async () => {
    const [{ lock, proxy }, other] = [await cutOffNode(), node()];
    await lock.run('key', async (lost, confirm) => {
      await confirm();
      proxy.goSilent();
      expect(await other.run('key', async () => lost.aborted)).toBe(true);
    });
  });

  it('is not confirmed over a connection that leads nowhere, as another node may have it already', async () => {
    const [{ lock, proxy }, other] = [await cutOffNode(), node()];
    await lock.run('key', async (_, confirm) => {
      const [own] = await rows("SELECT pid FROM pg_locks WHERE locktype = 'advisory'");
      proxy.goSilent();
      // As where another server takes over, which knows of no locks.
      await rows('SELECT pg_terminate_backend($1)', [own?.['pid']]);
      expect(await other.run('key', async () => 'in')).toBe('in');
      await expect(confirm()).rejects.toMatchObject({ code: 'unavailable' });
    });
  });

  it('is to be had again at once on a node whose connection led nowhere', async () => {
    const { lock, proxy } = await cutOffNode();
    await lock.run('key', async () => undefined);
    proxy.goSilent();
    await expect(lock.run('another', async () => 'in')).rejects.toMatchObject({ code: 'unavailable' });
    for (let n = 0; n < 3; n++) expect(await lock.run(`key ${n}`, async () => 'in')).toBe('in');
  });

  it('that was given to nobody, as the answer never came, is not kept from all others', async () => {
    const [{ lock, proxy }, other] = [await cutOffNode(), node()];
    await lock.run('another', async () => undefined);
    proxy.goSilent('answers');
    await expect(lock.run('key', async () => 'in')).rejects.toMatchObject({ code: 'unavailable' });
    expect(await rows("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'")).toHaveLength(1);
    expect(await other.run('key', async () => 'in')).toBe('in');
    expect(await lock.run('key', async () => 'in')).toBe('in');
  });

  it('that the server granted and then spoke of as an error is not kept by a node that does not know of it', async () => {
    await rows(`CREATE FUNCTION public.pg_try_advisory_lock(integer, integer) RETURNS boolean LANGUAGE plpgsql AS
      $$ BEGIN PERFORM pg_catalog.pg_try_advisory_lock($1, $2); RAISE 'too late'; END $$`);
    const options = encodeURIComponent('-c search_path=public,pg_catalog');
    const [unlucky, other] = [node(20_000, `${url}?options=${options}`), node(5_000)];
    await expect(unlucky.run('key', async () => 'in')).rejects.toMatchObject({ code: 'unavailable' });
    expect(await other.run('key', async () => 'in')).toBe('in');
  });
});
