import type { Migration, MigrationRequest } from '@mds/client';
import picocolors from 'picocolors';
import { expect, it } from 'vitest';
import { createMoveDisplay } from '../src/migrate-to/move-display.ts';
import { mdsHere, plain } from './run-cli.ts';
import { sendProblem, startService, TOKEN } from './scripted-service.ts';

const COLOURS = picocolors.createColors(false);
const DATABASE = 'postgres://mds:s3cret@db/mds';
const STORAGE = 's3://bucket/mds';
const SETTINGS = { MDS_DATABASE_URL: 'postgres://mds:PASSWORD@db/mds', MDS_STORAGE_URL: STORAGE };

/** The fields that stay the same during the moves of these tests. */
const BEGUN = {
  ...{ object: 'migration', state: 'running', phase: 'objects', writes_refused: false, settings: null },
  ...{ started_at: '2026-01-01T00:00:00Z', ended_at: null, frozen_at: null },
  ...{ open_uploads: null, error_count: 0, errors: [] },
  destination: { database: 'db/mds', storage: STORAGE },
} satisfies Partial<Migration>;

/** A service whose move advances by one of `steps` at each request, and stays at the last. */
async function setUp(steps: Partial<Migration>[]) {
  const service = await startService();
  const begun: MigrationRequest[] = [];
  let at = -1;
  const migration = (): Migration => ({
    ...BEGUN,
    objects: {
      passes: 1,
      ...{ verified: 30, verified_bytes: 1000, copied: 30, copied_bytes: 1000, total: 60, total_bytes: 2000 },
    },
    rows: { copied: 70, total: 100, tables: [] },
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
    looks: () => at + 1,
    mds: (args: string[], more: Record<string, string> = {}, interrupt?: AbortSignal) =>
      mdsHere(['migrate-to', ...args], { env: { ...env, ...more }, ...(interrupt && { interrupt }) }),
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  };
}

it('starts a move, follows it, and prints only the settings of the destination', async () => {
  const done = { state: 'done', phase: 'done', settings: SETTINGS, open_uploads: 2 } as const;
  await using it = await setUp([{}, { phase: 'changes' }, done]);
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

it('follows a running move, and repeats the result of a finished one', async () => {
  const running = [{}, {}, {}, {}, { state: 'done', phase: 'done', settings: SETTINGS } as const];
  await using it = await setUp(running);
  const args = ['--database', DATABASE, '--storage', STORAGE];
  const [first, second] = await Promise.all([it.mds(args), it.mds(args)]);
  expect([first.code, second.code]).toEqual([0, 0]);
  expect(first.stderr + second.stderr).toContain('The move is already running.');
  const third = await it.mds(args);
  expect(third).toEqual(await it.mds(['--status']));
  expect([third.code, third.stdout]).toEqual([0, expect.stringContaining(`MDS_STORAGE_URL=${STORAGE}`)]);
  for (const elsewhere of [
    ['--database', DATABASE, '--storage', `${STORAGE}2`],
    ['--database', 'postgres://mds:s3cret@db:5433/mds', '--storage', STORAGE],
    [...args, '--s3-endpoint', 'http://s3.internal:9000'],
  ]) {
    expect((await it.mds(elsewhere)).code).toBe(1);
  }
});

it('translates the fields of an API error into options and commands', async () => {
  await using service = await startService();
  service.on('GET /control/v1/migrations', (_, res) => sendProblem(res, 404, 'not_found', 'No migration was begun.'));
  service.on('POST /control/v1/migrations', (_, res) =>
    sendProblem(res, 400, 'invalid_request', 'The destination cannot be used. storage_url: It has to be s3://bucket.'),
  );
  const mds = (...args: string[]) =>
    mdsHere(['migrate-to', ...args], { env: { MDS_URL: service.url, MDS_TOKEN: TOKEN } });
  for (const option of ['--status', '--cancel']) {
    const { code, stderr } = await mds(option);
    expect([code, stderr]).toEqual([3, expect.stringContaining('mds migrate-to --database URL --storage URL\n')]);
  }
  const { code, stderr } = await mds('--database', DATABASE, '--storage', 's3://b2/p');
  expect([code, stderr]).toEqual([1, expect.stringContaining('\n  --storage sets storage_url.\n')]);
  expect(stderr).not.toContain('--database');
});

it('ends with 1 if the move failed, and names the objects with their errors', async () => {
  const errors = [{ key: 'originals/ab/abc', message: 'Its bytes are not those that were recorded.' }];
  await using it = await setUp([{ state: 'failed', errors, error_count: 1 }]);
  const { code, stderr } = await it.mds(['--database', DATABASE, '--storage', STORAGE]);
  expect(code).toBe(1);
  expect(stderr).toContain('originals/ab/abc: Its bytes are not those that were recorded.');
});

it("--status --json prints the API's document; cancels; asks for a destination", async () => {
  await using it = await setUp([{ phase: 'rows', writes_refused: true }]);
  expect(JSON.parse((await it.mds(['--status', '--json'])).stdout)).toMatchObject({
    phase: 'rows',
    writes_refused: true,
  });
  expect(await it.mds(['--cancel'])).toEqual({
    code: 0,
    stdout: '',
    stderr: 'Canceled. The service accepts writes again.\n',
  });
  expect((await it.mds(['--storage', STORAGE])).code).toBe(2);
});

it('shows phase, progress and remaining time on a terminal', async () => {
  let nowMs = 0;
  const display = createMoveDisplay(() => nowMs);
  const at = (verified: number, more: Partial<Migration> = {}): Migration => ({
    ...BEGUN,
    objects: {
      ...{
        passes: 0,
        verified,
        verified_bytes: verified * 1000,
        copied: 0,
        copied_bytes: 0,
        total: 1000,
        total_bytes: 5_000_000,
      },
    },
    rows: { copied: 70, total: 100, tables: [] },
    ...more,
  });
  display.update(at(0));
  nowMs = 2_000;
  display.update(at(100));
  // By objects 18 s would be left, by bytes 98 s.
  const shown = display.lines(100, COLOURS).map(plain);
  expect(shown[0]).toBe('Copying objects; writes are accepted');
  expect(shown[1]).toMatch(/^━+─+ {2}10% {2}100 of 1000 objects {2}100 kB of 5\.0 MB {2}50\/s {2}about 1m left$/);
  for (const width of [20, 40, 60]) {
    for (const line of display.lines(width, COLOURS)) expect(line.length).toBeLessThanOrEqual(width);
  }
  display.update(at(1000, { phase: 'changes' }));
  expect(display.lines(100, COLOURS).map(plain)[0]).toBe('Copying the latest changes; writes are refused');
});

it('on Ctrl-C, reports that the move continues and how to follow or end it', async () => {
  await using it = await setUp([{}]);
  const interrupt = new AbortController();
  const running = it.mds(['--database', DATABASE, '--storage', STORAGE], {}, interrupt.signal);
  await expect.poll(() => it.begun.length).toBe(1);
  await expect.poll(() => it.looks()).toBeGreaterThan(0);
  interrupt.abort();
  const { code, stderr } = await running;
  expect(code).toBe(130);
  expect(stderr).toContain(
    'The service continues the move. 30 objects (1.0 kB) were already verified at the destination',
  );
  expect(stderr).toContain('mds migrate-to --cancel');
});
