import { stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { describeOverPostgres } from '../../server/src/db/postgres/postgres.fixture.ts';
import { POSTGRES_PASSWORD } from '../../server/test/support/postgres-server.ts';
import { spawnService } from '../../server/test/support/service-process.ts';
import { mdsHere, temporaryFolder } from './run-cli.ts';

const run = (env: Record<string, string>, ...args: string[]) => mdsHere(['migrate', ...args], { env });
const states = (stdout: string) =>
  new Set(
    stdout
      .trim()
      .split('\n')
      .map((line) => line.split('\t')[1]),
  );

describe('mds migrate, in a data folder', () => {
  it('--check writes nothing; then the steps are applied, and nothing is left to do', async () => {
    await using folder = await temporaryFolder();
    const dataDir = join(folder.path, 'data');
    const env = { MDS_DATA_DIR: dataDir };
    const check = await run(env, '--check');
    expect([check.code, states(check.stdout)]).toEqual([1, new Set(['pending'])]);
    expect(check.stderr).toMatch(/mds\.sqlite lacks \d+ steps\. Run `mds migrate`\./);
    await expect(stat(dataDir)).rejects.toMatchObject({ code: 'ENOENT' });

    const taken = await run(env);
    expect([taken.code, states(taken.stdout)]).toEqual([0, new Set(['migrated'])]);
    const again = await run(env, '--check');
    expect([again.code, states(again.stdout)]).toEqual([0, new Set(['applied'])]);
    expect(again.stderr).toMatch(/mds\.sqlite is up to date/);
  });

  it('refuses a folder that a service uses, and a file that is not a database', async () => {
    await using folder = await temporaryFolder();
    const env = { MDS_DATA_DIR: folder.path };
    const service = await spawnService({ dataDir: folder.path, env: { MDS_ROLES: 'api,edge' } });
    try {
      const { code, stderr } = await run(env);
      expect([code, stderr]).toEqual([1, expect.stringContaining('is in use by the service with process id')]);
      expect((await run(env, '--check')).code).toBe(0);
    } finally {
      await service.end('SIGTERM');
    }
    await writeFile(join(folder.path, 'mds.sqlite'), 'not a database'.repeat(1_000));
    const { code, stderr } = await run(env, '--check');
    expect([code, stderr]).toEqual([1, expect.stringContaining('is damaged or not a database. Nothing was changed')]);
  });

  it('reports that a point of presence has no database', async () => {
    const { code, stderr } = await run({
      MDS_ROLES: 'edge',
      MDS_ORIGIN_URL: 'http://127.0.0.1:1',
      MDS_CONTROL_TOKEN: 't'.repeat(32),
    });
    expect([code, stderr]).toEqual([1, expect.stringContaining('has no database')]);
  });
});

describeOverPostgres('mds migrate, in PostgreSQL', (fixture) => {
  it('applies each step once, even if several run at once; BullMQ gets its tables', async () => {
    const env = { MDS_DATABASE_URL: fixture.url, MDS_QUEUE: 'bullmq' };
    expect((await run(env, '--check')).code).toBe(1);
    expect(await fixture.rows('SELECT 1 FROM pg_tables WHERE schemaname IN ($1, $2)', ['public', 'bullmq'])).toEqual(
      [],
    );
    const all = await Promise.all([1, 2, 3].map(() => run(env, '--json')));
    expect(all.map(({ code, stderr }) => [code, stderr])).toEqual(Array(3).fill([0, '']));
    expect(JSON.parse(all[0]?.stdout ?? '')).toMatchObject({
      pending: [],
      database: expect.stringContaining('127.0.0.1'),
    });
    const schemas = await fixture.rows('SELECT DISTINCT schemaname AS name FROM pg_tables ORDER BY 1');
    expect(schemas).toEqual(expect.arrayContaining([{ name: 'bullmq' }, { name: 'public' }]));
    expect((await run(env, '--check')).code).toBe(0);
  });

  it('reports an unreachable database without its password', async () => {
    const url = new URL(fixture.url);
    url.pathname = '/nowhere';
    const { code, stdout, stderr } = await run({ MDS_DATABASE_URL: url.href });
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/cannot be opened: database "nowhere" does not exist/);
    expect(stderr).not.toContain(POSTGRES_PASSWORD);
  });
});
