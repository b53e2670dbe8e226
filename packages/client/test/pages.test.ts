import { expect, it } from 'vitest';
import { createClient } from '../src/index.ts';
import { sendJson, sendProblem, startServer, type TestServer } from './http-server.ts';

/** Five items in pages of two; the cursor is the next item's number. */
function pagedServer(): Promise<TestServer> {
  return startServer((request, response) => {
    const url = new URL(request.url ?? '', 'http://x');
    const start = Number(url.searchParams.get('cursor') ?? 0);
    const data = [0, 1, 2, 3, 4].slice(start, start + 2).map((n) => ({ id: `med_${n}` }));
    sendJson(response, 200, { object: 'list', data, next_cursor: start + 2 < 5 ? String(start + 2) : null, total: 5 });
  });
}

it('awaited, returns a page with all fields of the service, also newer ones', async () => {
  await using server = await pagedServer();
  const page = await createClient({ baseUrl: server.url }).media.list({ limit: 2 });
  expect(page.data.map(({ id }) => id)).toEqual(['med_0', 'med_1']);
  expect(JSON.parse(JSON.stringify(page))).toEqual({
    object: 'list',
    data: [{ id: 'med_0' }, { id: 'med_1' }],
    next_cursor: '2',
    total: 5,
  });
  expect(server.requests).toEqual(['GET /api/v1/media?limit=2']);
});

it('iterated, yields the items of all pages and keeps the limit', async () => {
  await using server = await pagedServer();
  const ids: string[] = [];
  for await (const { id } of createClient({ baseUrl: server.url }).media.list({ limit: 2 })) ids.push(id);
  expect(ids).toEqual(['med_0', 'med_1', 'med_2', 'med_3', 'med_4']);
  expect(server.requests).toEqual([
    'GET /api/v1/media?limit=2',
    'GET /api/v1/media?limit=2&cursor=2',
    'GET /api/v1/media?limit=2&cursor=4',
  ]);
});

it('requests no page that is not needed', async () => {
  await using server = await pagedServer();
  for await (const { id } of createClient({ baseUrl: server.url }).media.list()) if (id === 'med_1') break;
  expect(server.requests).toHaveLength(1);
});

it('yields pages one by one, and continues from any page', async () => {
  await using server = await pagedServer();
  const client = createClient({ baseUrl: server.url });
  const sizes: number[] = [];
  for await (const page of client.media.list().pages()) sizes.push(page.data.length);
  expect(sizes).toEqual([2, 2, 1]);

  const second = await (await client.media.list()).nextPage();
  const rest: string[] = [];
  for await (const { id } of second ?? []) rest.push(id);
  expect(rest).toEqual(['med_2', 'med_3', 'med_4']);
  expect(await (await client.media.list({ cursor: '4' })).nextPage()).toBeNull();
});

it('treats a list without next_cursor as the last page', async () => {
  await using server = await startServer((_, response) => sendJson(response, 200, { object: 'list', data: [] }));
  expect((await createClient({ baseUrl: server.url }).media.list()).next_cursor).toBeNull();
});

it('fails if a page is its own next page', async () => {
  await using server = await startServer((_, response) =>
    sendJson(response, 200, { object: 'list', data: [{}], next_cursor: 'same' }),
  );
  const run = async () => {
    for await (const _ of createClient({ baseUrl: server.url }).media.list());
  };
  await expect(run()).rejects.toThrow(/circle/);
});

it('an error on a later page reaches the loop', async () => {
  await using server = await startServer((_, response, n) =>
    n === 1
      ? sendJson(response, 200, { object: 'list', data: [{}], next_cursor: '1' })
      : sendProblem(response, 400, 'invalid_cursor'),
  );
  let count = 0;
  const run = async () => {
    for await (const _ of createClient({ baseUrl: server.url }).media.list()) count++;
  };
  await expect(run()).rejects.toMatchObject({ code: 'invalid_cursor' });
  expect(count).toBe(1);
});

it('an abort ends the iteration, even between pages', async () => {
  await using server = await pagedServer();
  const stop = new AbortController();
  const run = async () => {
    for await (const _ of createClient({ baseUrl: server.url }).media.list({ signal: stop.signal }))
      stop.abort(new Error('enough'));
  };
  await expect(run()).rejects.toThrow('enough');
  expect(server.requests).toHaveLength(1);
});
