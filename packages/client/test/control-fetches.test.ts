import { expect, it } from 'vitest';
import {
  ConflictError,
  createClient,
  FetchFailedError,
  InvalidRequestError,
  isFetchFailedError,
  TimeoutError,
  type UrlFetch,
} from '../src/index.ts';
import { readBody, rejection, sendJson, sendProblem, startServer } from './http-server.ts';

const fetching: UrlFetch = {
  object: 'fetch',
  id: 'fch_01k0c4s6q8y2v4w6x8z0a2c4e6',
  created_at: '2026-01-31T08:15:00Z',
  updated_at: '2026-01-31T08:15:01Z',
  source_url: 'https://example.org/lake.jpg',
  filename: 'lake.jpg',
  status: 'fetching',
  received_bytes: 10,
  total_bytes: 100,
  attempts: 1,
  media_id: null,
  created: null,
  error: null,
};
const done: UrlFetch = { ...fetching, status: 'done', received_bytes: 100, media_id: 'med_1', created: false };
const url = 'https://example.org/lake.jpg?signature=x';

it('ingestUrl follows the fetch of a URL and resolves with its media object', async () => {
  const bodies: unknown[] = [];
  await using server = await startServer(async (request, response, n) => {
    if (request.method === 'POST') bodies.push(JSON.parse((await readBody(request)).toString()));
    if (n === 1) sendJson(response, 202, { ...fetching, status: 'queued', received_bytes: 0, total_bytes: null });
    else if (request.url?.includes('/fetches/')) sendJson(response, 200, n < 4 ? fetching : done);
    else sendJson(response, 200, { id: 'med_1' });
  });
  const { control } = createClient({ baseUrl: server.url, token: 't' });
  const progress: unknown[] = [];
  const onProgress = (at: unknown) => progress.push(at);
  const ingested = await control.media.ingestUrl(url, { filename: 'b.jpg', duplicate: 'allow', onProgress });
  expect(ingested).toEqual({ media: { id: 'med_1' }, created: false });
  expect(bodies).toEqual([{ source_url: url, filename: 'b.jpg', duplicate: 'allow' }]);
  expect(server.headers[0]?.['idempotency-key']).toMatch(/^[0-9a-f]{32}$/);
  expect(server.requests).toEqual([
    'POST /control/v1/media',
    ...Array.from({ length: 3 }, () => `GET /control/v1/fetches/${fetching.id}`),
    'GET /control/v1/media/med_1',
  ]);
  expect(progress).toEqual([
    { id: fetching.id, status: 'queued', receivedBytes: 0, totalBytes: null },
    { id: fetching.id, status: 'fetching', receivedBytes: 10, totalBytes: 100 },
    { id: fetching.id, status: 'done', receivedBytes: 100, totalBytes: 100 },
  ]);
});

it('a failed or canceled fetch is thrown as a FetchFailedError', async () => {
  const failure = { code: 'source_refused', message: 'The source answered with status 404.', retryable: false };
  for (const end of [
    { ...fetching, status: 'failed', error: failure },
    { ...fetching, status: 'canceled' },
  ] as const) {
    await using server = await startServer((_, response) => sendJson(response, 202, end));
    const { control } = createClient({ baseUrl: server.url, token: 't' });
    const error = await rejection(control.media.ingestUrl(url));
    expect(error).toBeInstanceOf(FetchFailedError);
    expect(isFetchFailedError(error)).toBe(true);
    expect(error).toMatchObject({ fetch: end, failure: end.error, code: end.error?.code ?? null });
    expect(String(error)).toContain(end.error?.message ?? 'canceled');
  }
});

it('a refusal is thrown at once; a lost request is repeated under the same key', async () => {
  await using refusing = await startServer((_, response) => sendProblem(response, 422, 'source_not_allowed'));
  const refused = createClient({ baseUrl: refusing.url, token: 't' }).control.media.ingestUrl('file:///etc/passwd');
  expect(await rejection(refused)).toBeInstanceOf(InvalidRequestError);
  await using busy = await startServer((request, response, n) => {
    if (n === 1) response.destroy();
    else sendJson(response, 200, request.url?.includes('/media/') ? { id: 'med_1' } : done);
  });
  await createClient({ baseUrl: busy.url, token: 't' }).control.media.ingestUrl(new URL(url));
  expect(busy.requests.slice(0, 2)).toEqual(['POST /control/v1/media', 'POST /control/v1/media']);
  expect(busy.headers[0]?.['idempotency-key']).toBe(busy.headers[1]?.['idempotency-key']);
});

it('an abort or the time limit ends the wait for a fetch', async () => {
  await using server = await startServer((_, response) => sendJson(response, 200, fetching));
  const { control } = createClient({ baseUrl: server.url, token: 't' });
  expect(await rejection(control.media.ingestUrl(url, { timeoutMs: 200 }))).toBeInstanceOf(TimeoutError);
  const controller = new AbortController();
  const reason = new Error('enough');
  const ingesting = control.media.ingestUrl(url, {
    signal: controller.signal,
    onProgress: () => controller.abort(reason),
  });
  expect(await rejection(ingesting)).toBe(reason);
});

it('fetches can be listed, read and canceled', async () => {
  await using server = await startServer((request, response) => {
    if (request.method === 'DELETE') sendProblem(response, 409, 'state_conflict');
    else if (request.url?.includes('/fetches?'))
      sendJson(response, 200, { object: 'list', data: [done], next_cursor: null });
    else sendJson(response, 200, done);
  });
  const { fetches } = createClient({ baseUrl: server.url, token: 't' }).control;
  expect((await fetches.list({ status: 'done', limit: 5 })).data).toEqual([done]);
  expect(await fetches.get(done.id)).toEqual(done);
  expect(await rejection(fetches.cancel(done.id))).toBeInstanceOf(ConflictError);
  expect(server.requests).toEqual([
    'GET /control/v1/fetches?limit=5&status=done',
    `GET /control/v1/fetches/${done.id}`,
    `DELETE /control/v1/fetches/${done.id}`,
  ]);
});
