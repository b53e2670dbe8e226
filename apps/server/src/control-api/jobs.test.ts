import { JobList } from '@mds/contract';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type AppFixture, startApp, TOKENS } from '../../test/support/app-fixture.ts';

let app: AppFixture;
beforeEach(async () => {
  app = await startApp();
});
afterEach(() => app.stop());

const list = async (query = '', token?: string) => {
  const answer = await app.control(`/jobs${query}`, token === undefined ? {} : { token });
  return { ...JobList.parse(await answer.json()), link: answer.headers.get('link') };
};

it('lists running and queued jobs, oldest first, by page and state', async () => {
  const { jobs } = app.repositories;
  const ids: string[] = [];
  for (let n = 0; n < 5; n += 1) ids.push(await app.addMedia());
  const lease = await jobs.claim('vm:1:a');
  if (lease === null) throw new Error('There is nothing to claim.');
  await jobs.progress(lease, 0.25);
  const outage = { code: 'unavailable', message: 'The storage did not answer.', retryable: true };
  const second = await jobs.claim('vm:1:a');
  if (second === null) throw new Error('There is nothing more to claim.');
  await jobs.release(second, { kind: 'released', failure: outage });

  const { data } = await list();
  expect(data.map(({ media_id: id }) => id)).toEqual(ids);
  expect(data.slice(0, 3)).toMatchObject([
    { object: 'job', id: `job-${lease.jobId}`, state: 'running', worker: 'vm:1:a', attempts: 1, progress: 0.25 },
    { state: 'queued', worker: null, attempts: 1, started_at: null, last_reason: outage.message },
    { state: 'queued', worker: null, attempts: 0, priority: 100, last_reason: null },
  ]);

  const first = await list('?limit=2&state=queued');
  expect(first.data.map(({ media_id: id }) => id)).toEqual(ids.slice(1, 3));
  expect(first.link).toBe(`</control/v1/jobs?limit=2&cursor=${first.next_cursor}&state=queued>; rel="next"`);
  const rest = await list(`?limit=2&state=queued&cursor=${first.next_cursor}`);
  expect(rest.data.map(({ media_id: id }) => id)).toEqual(ids.slice(3));
  expect(rest.next_cursor).toBeNull();
  expect((await list('?state=running')).data.map(({ media_id: id }) => id)).toEqual(ids.slice(0, 1));
});

it("shows only the project's own jobs, and no path of the machine", async () => {
  await app.stop();
  app = await startApp({ control: { hidden: { '/srv/private': 'DATA' } } });
  const { jobs } = app.repositories;
  const own = await app.addMedia();
  const theirs = await app.addMedia({ projectId: 'other' });
  const lease = await jobs.claim('w1');
  if (lease === null) throw new Error('There is nothing to claim.');
  const failure = { code: 'internal_error', message: 'No room in /srv/private/scratch.', retryable: true };
  await jobs.release(lease, { kind: 'retry', delayMs: 1000, failure });
  expect((await list('', TOKENS.ingest)).data).toMatchObject([
    { media_id: own, last_reason: 'No room in DATA/scratch.' },
  ]);
  expect((await list('', TOKENS.other)).data).toMatchObject([{ media_id: theirs }]);
  expect((await app.get('/control/v1/jobs')).status).toBe(401);
});

it.each(['?state=failed', '?limit=0', '?cursor=job-1', '?cursor=AQ'])(
  'refuses the query %s with the valid values',
  async (query) => {
    const answer = await app.control(`/jobs${query}`);
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({ code: expect.stringMatching(/^invalid_(request|cursor)$/) });
  },
);

it('refuses a cursor of another list', async () => {
  for (let n = 0; n < 2; n += 1) await app.addMedia();
  const { next_cursor: cursor } = await list('?limit=1');
  expect((await app.control(`/media?cursor=${cursor}`)).status).toBe(400);
  const media: unknown = await (await app.control('/media?limit=1')).json();
  const ofMedia = typeof media === 'object' && media !== null && 'next_cursor' in media ? media.next_cursor : '';
  expect((await app.control(`/jobs?cursor=${String(ofMedia)}`)).status).toBe(400);
});
