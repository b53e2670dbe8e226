import { MAX_LISTED_WORKERS, WorkerList } from '@mds/contract';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type AppFixture, startApp, TOKENS } from '../../test/support/app-fixture.ts';

const SINCE = '2026-01-31T08:15:00Z';
const FACTS = { host: 'vm', pid: 4711, region: 'fra1', concurrency: 2, sinceMs: Date.parse(SINCE) + 987 };
const SHOWN = { object: 'worker', host: 'vm', pid: 4711, region: 'fra1', concurrency: 2, since: SINCE };

let app: AppFixture;
beforeEach(async () => {
  app = await startApp();
});
afterEach(() => app.stop());

const announce = (id: string) => app.repositories.jobs.announceWorker({ id, ...FACTS });
const claim = async (worker: string) => {
  const lease = await app.repositories.jobs.claim(worker);
  if (lease === null) throw new Error('There is nothing to claim.');
  return lease;
};
const list = async (token?: string) => {
  const answer = await app.control('/workers', token === undefined ? {} : { token });
  return WorkerList.parse(await answer.json()).data;
};

it('the list shows workers with their jobs and progress, and idle workers', async () => {
  const { jobs } = app.repositories;
  expect(await list()).toEqual([]);
  const ids: string[] = [];
  for (let n = 0; n < 4; n += 1) ids.push(await app.addMedia());
  for (const id of ['vm:2:b', 'vm:3:c', 'vm:1:a']) await announce(id);
  await jobs.progress(await claim('vm:2:b'), 0.25);
  await claim('vm:1:a');
  await claim('vm:2:b');

  const found = await list();
  expect(found).toMatchObject([
    { ...SHOWN, id: 'vm:1:a', running: 1, jobs: [{ media_id: ids[1], progress: null }] },
    { ...SHOWN, id: 'vm:2:b', running: 2, jobs: [{ media_id: ids[0], progress: 0.25 }, { media_id: ids[2] }] },
    { ...SHOWN, id: 'vm:3:c', running: 0, jobs: [] },
  ]);
  // A job looks here as it does in the list of jobs.
  const all: unknown = await (await app.control('/jobs?state=running')).json();
  expect(all).toMatchObject({ data: [found[1]?.jobs[0], found[0]?.jobs[0], found[1]?.jobs[1]] });
});

it("the list names only the project's own media, counts the others, and hides paths", async () => {
  await app.stop();
  app = await startApp({ control: { hidden: { '/srv/private': 'DATA' } } });
  const own = await app.addMedia();
  const theirs = await app.addMedia({ projectId: 'other' });
  await announce('vm:1:a');
  const failure = { code: 'internal_error', message: 'No room in /srv/private/scratch.', retryable: true };
  await app.repositories.jobs.release(await claim('vm:1:a'), { kind: 'retry', delayMs: 0, failure });
  for (let n = 0; n < 2; n += 1) await claim('vm:1:a');
  expect(await list(TOKENS.ingest)).toMatchObject([
    { running: 2, jobs: [{ media_id: own, last_reason: 'No room in DATA/scratch.' }] },
  ]);
  expect(await list(TOKENS.other)).toMatchObject([{ running: 2, jobs: [{ media_id: theirs }] }]);
  expect((await app.get('/control/v1/workers')).status).toBe(401);
  expect((await app.control('/workers', { method: 'DELETE' })).status).toBe(405);
});

it('the list is bounded, however many workers there are', async () => {
  for (let n = 0; n < MAX_LISTED_WORKERS + 2; n += 1) await announce(`vm:${String(n).padStart(5, '0')}:a`);
  const found = await list();
  expect(found).toHaveLength(MAX_LISTED_WORKERS);
  expect(found[0]?.id).toBe('vm:00000:a');
});
