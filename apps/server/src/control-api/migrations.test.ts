import { type MigrationRequest, Problem } from '@mds/contract';
import { afterEach, expect, it } from 'vitest';
import { type AppFixture, startApp, TOKENS } from '../../test/support/app-fixture.ts';
import { DatabaseRefusedError } from '../db/database-refused-error.ts';
import { createMigration, type Migration } from '../migration/migration.ts';
import type { MigrationProgress } from '../migration/migration-progress.ts';
import { createWriteGate } from '../migration/write-gate.ts';
import { ObjectStorageError } from '../storage/s3-failure.ts';
import { send } from './requests.fixture.ts';

let app: AppFixture | undefined;
afterEach(() => app?.stop());

const where = { database_url: 'postgres://mds:s3cret@db/mds', storage_url: 's3://bucket/mds' };

async function startWith(openError: Error | null) {
  const writes = createWriteGate();
  const migration = createMigration({
    // A refused destination is never migrated to, so none of these is used.
    store: null as never,
    openSource: () => null as never,
    scratchDir: '',
    freeze: () => writes.close(),
    unfreeze: async () => writes.open(),
    moved: () => writes.closeForGood(),
    logger: null as never,
  });
  const openDestination = () => Promise.reject(openError);
  app = await startApp({
    control: { writes, migrations: { migration: openError && migration, s3Endpoint: null, openDestination } },
  });
  return { app, writes };
}

async function problemOf(answer: Response): Promise<Problem> {
  return Problem.parse(await answer.json());
}

it('only the operator of the deployment can use migrations', async () => {
  const { app } = await startWith(null);
  for (const token of [TOKENS.ingest, TOKENS.other]) {
    expect((await send(app, 'POST', '/migrations', where, token)).status).toBe(403);
    expect((await send(app, 'GET', '/migrations/current', undefined, token)).status).toBe(403);
    expect((await send(app, 'DELETE', '/migrations/current', undefined, token)).status).toBe(403);
  }
});

it('migrations from PostgreSQL are refused, and unknown ones are not found', async () => {
  const { app } = await startWith(null);
  const answer = await send(app, 'POST', '/migrations', where);
  expect([answer.status, (await problemOf(answer)).code]).toEqual([409, 'state_conflict']);
  expect((await send(app, 'GET', '/migrations/current')).status).toBe(404);
  expect((await send(app, 'DELETE', '/migrations/current')).status).toBe(404);
});

it('a refused destination is reported with the reason and without the password', async () => {
  const { app } = await startWith(new DatabaseRefusedError('The database db/mds has media already.'));
  const answer = await send(app, 'POST', '/migrations', where);
  const problem = await problemOf(answer);
  expect([answer.status, problem.code]).toEqual([400, 'invalid_request']);
  expect(problem.detail).toContain('The database db/mds has media already.');
  for (const [error, message] of [
    [
      new ObjectStorageError('There is no such bucket. Name another one in MDS_STORAGE_URL.'),
      'another one in storage_url.',
    ],
    [new DatabaseRefusedError('MDS_DATABASE_URL is no URL.'), 'database_url is no URL.'],
    [new RangeError('It has to be s3://bucket.'), 'storage_url: It has to be s3://bucket.'],
  ] as const) {
    const { app: other } = await startWith(error);
    expect((await problemOf(await send(other, 'POST', '/migrations', where))).detail).toContain(message);
    await other.stop();
  }
  const bad = await send(app, 'POST', '/migrations', { ...where, database_url: 'mysql://mds:s3cret@db/mds' });
  const text = await bad.text();
  expect([bad.status, text.includes('database_url'), text.includes('s3cret')]).toEqual([400, true, false]);
});

it.each([
  ['of the service if the request names none', {}, 'http://s3.internal:9000'],
  ['that the request names', { s3_endpoint: 'http://elsewhere:9000' }, 'http://elsewhere:9000'],
])('a migration uses the S3 server %s, and reports it in the new settings', async (_, named, endpoint) => {
  const asked: MigrationRequest[] = [];
  const done: MigrationProgress = {
    ...{ state: 'done', phase: 'done', startedAtMs: 0, endedAtMs: 1, frozen: true, frozenAtMs: 1, openUploads: 0 },
    ...{ extent: null, copiedRows: 0, tables: [], errorCount: 0, errors: [] },
    objects: { passes: 1, verified: 0, verifiedBytes: 0, copied: 0, copiedBytes: 0 },
    destination: { database: 'db/mds', storage: where.storage_url },
  };
  const unused = () => Promise.reject(new Error('nobody asks for this'));
  const migration: Migration = {
    // Only the request for the destination matters here.
    begin: async (open) => open().then(unused, () => done),
    current: () => done,
    ...{ cancel: unused, settled: unused, stop: unused },
  };
  const openDestination = (to: MigrationRequest) => {
    asked.push(to);
    return unused();
  };
  app = await startApp({
    control: { migrations: { migration, s3Endpoint: 'http://s3.internal:9000', openDestination } },
  });
  expect((await send(app, 'POST', '/migrations', { ...where, ...named })).status).toBe(202);
  expect(asked).toEqual([{ ...where, s3_endpoint: endpoint }]);
  expect(await (await send(app, 'GET', '/migrations/current')).json()).toMatchObject({
    settings: { MDS_STORAGE_URL: where.storage_url, MDS_S3_ENDPOINT: new URL(endpoint).href },
  });
});

it('a closed gate refuses writes before their bodies, and lets reads pass', async () => {
  const { app, writes } = await startWith(null);
  const id = await app.addMedia();
  await writes.close();
  for (const [method, path] of [
    ['POST', '/media'],
    ['POST', '/uploads'],
    ['DELETE', `/media/${id}`],
    ['PUT', '/regions/fra1'],
  ] as const) {
    const answer = await send(app, method, path, {});
    expect([method, path, answer.status, answer.headers.get('retry-after')]).toEqual([method, path, 503, '30']);
    expect((await problemOf(answer)).code).toBe('unavailable');
  }
  expect((await send(app, 'GET', `/media/${id}`)).status).toBe(200);
  expect((await send(app, 'GET', '/migrations/current')).status).toBe(404);
  writes.closeForGood();
  const answer = await send(app, 'POST', '/media', {});
  expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '30']);
  expect((await problemOf(answer)).code).toBe('deployment_moved');
  expect((await send(app, 'GET', `/media/${id}`)).status).toBe(200);
  writes.open();
  expect((await send(app, 'DELETE', `/media/${id}`)).status).toBe(204);
});
