import type { Migration, MigrationRequest } from '@mds/client';
import { expect, it } from 'vitest';
import { mdsHere } from './run-cli.ts';
import { sendProblem, startService, TOKEN } from './scripted-service.ts';

const DATABASE = 'postgres://mds:s3cret@db/mds';
const STORAGE = 's3://bucket/mds';
const SETTINGS = { MDS_DATABASE_URL: 'postgres://mds:PASSWORD@db/mds', MDS_STORAGE_URL: STORAGE };

/** A service that is at `steps`, one at each look, and stays at the last. */
async function setUp(steps: Partial<Migration>[]) {
  const service = await startService();
  const begun: MigrationRequest[] = [];
  let at = -1;
  const migration = (): Migration => ({
    ...{ object: 'migration', state: 'running', phase: 'objects', writes_refused: false, settings: null },
    ...{ started_at: '2026-01-01T00:00:00Z', ended_at: null, open_uploads: null, error_count: 0, errors: [] },
    destination: { database: 'db/mds', storage: STORAGE },
    objects: { passes: 1, verified: 30, copied: 30, copied_bytes: 1000 },
    rows: { copied: 70, tables: [] },
    ...steps[Math.min(Math.max(0, at), steps.length - 1)],
  });
  service.on('POST /control/v1/migrations', async (req, res) => {
    let body = '';
    for await (const piece of req) body += String(piece);
    begun.push(JSON.parse(body) as MigrationRequest);
    if (begun.length > 1) return sendProblem(res, 409, 'state_conflict', 'A migration is under way.');
    res.writeHead(202, { 'content-type': 'application/json' }).end(JSON.stringify(migration()));
  });
  for (const method of ['GET', 'DELETE']) {
    service.on(`${method} /control/v1/migrations/current`, (_req, res) => {
      at += 1;
      res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(migration()));
    });
  }
  const env = { MDS_URL: service.url, MDS_TOKEN: TOKEN };
  return {
    begun,
    mds: (args: string[], more: Record<string, string> = {}) =>
      mdsHere(['migrate-to', ...args], { env: { ...env, ...more } }),
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  };
}

it('begins the move, follows it to its end, and prints the settings of the destination alone', async () => {
  const done = { state: 'done', phase: 'done', settings: SETTINGS, open_uploads: 2 } as const;
  await using it = await setUp([{}, { phase: 'rows' }, done]);
  const { code, stdout, stderr } = await it.mds(['--storage', STORAGE, '--s3-endpoint', 'http://s3.internal:9000'], {
    MDS_TARGET_DATABASE_URL: DATABASE,
  });
  expect(it.begun).toEqual([{ database_url: DATABASE, storage_url: STORAGE, s3_endpoint: 'http://s3.internal:9000' }]);
  expect([code, stdout]).toEqual([
    0,
    'MDS_DATABASE_URL=postgres://mds:PASSWORD@db/mds\nMDS_STORAGE_URL=s3://bucket/mds\n',
  ]);
  expect(stderr).toContain('Moved and equal: 30 objects, 70 rows.');
  expect(stderr).toContain('2 open uploads did not move');
  expect(stdout + stderr).not.toContain('s3cret');
});

it('goes on following a move that is under way, and begins none where it is over', async () => {
  const running = [{}, {}, {}, {}, { state: 'done', phase: 'done', settings: SETTINGS } as const];
  await using it = await setUp(running);
  const args = ['--database', DATABASE, '--storage', STORAGE];
  const [first, second] = await Promise.all([it.mds(args), it.mds(args)]);
  expect([first.code, second.code]).toEqual([0, 0]);
  expect(first.stderr + second.stderr).toContain('It is under way already.');
  expect((await it.mds(args)).code).toBe(1);
});

it('ends with 1 where the move failed, and says what is wrong with which object', async () => {
  const errors = [{ key: 'originals/ab/abc', message: 'Its bytes are not those that were recorded.' }];
  await using it = await setUp([{ state: 'failed', errors, error_count: 1 }]);
  const { code, stderr } = await it.mds(['--database', DATABASE, '--storage', STORAGE]);
  expect(code).toBe(1);
  expect(stderr).toContain('originals/ab/abc: Its bytes are not those that were recorded.');
});

it('shows how far it is as the JSON of the API, cancels it, and asks where to', async () => {
  await using it = await setUp([{ phase: 'rows', writes_refused: true }]);
  expect(JSON.parse((await it.mds(['--status', '--json'])).stdout)).toMatchObject({
    phase: 'rows',
    writes_refused: true,
  });
  expect(await it.mds(['--cancel'])).toEqual({
    code: 0,
    stdout: '',
    stderr: 'Canceled. The service takes writes again.\n',
  });
  expect((await it.mds(['--storage', STORAGE])).code).toBe(2);
});
