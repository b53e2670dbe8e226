import { once } from 'node:events';
import { Client } from 'pg';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { findPostgres, type PostgresServer, startPostgresServer } from '../../../test/postgres-server.ts';
import { describeWith } from '../../../test/system-program.ts';
import { createLogger } from '../../logger.ts';
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

  const node = (patienceMs = 20_000) => {
    const lock = createPostgresKeyedLock({
      ...{ connection: { connectionString: url }, logger: createLogger('silent'), patienceMs },
    });
    onTestFinished(() => lock.close());
    return lock;
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
});
