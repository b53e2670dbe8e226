import { describe, expect, it } from 'vitest';
import { ApiError, ConnectionError, createClient, isApiError, TimeoutError } from '../src/index.ts';
import { MAX_RETRY_AFTER_MS, parseRetryAfterMs, retryDelayMs } from '../src/retry.ts';
import { rejection, sendJson, sendProblem, startServer } from './http-server.ts';

const OK = { object: 'list', data: [] };

it.each([429, 502, 503, 504])('a read is retried after status %i', async (status) => {
  await using server = await startServer((_, response, n) =>
    n < 3 ? sendProblem(response, status, 'overloaded') : sendJson(response, 200, OK),
  );
  await createClient({ baseUrl: server.url }).regions.list();
  expect(server.requests).toHaveLength(3);
});

it.each([400, 401, 404, 409, 500, 501, 507])('a read is not retried after status %i', async (status) => {
  await using server = await startServer((_, response) => sendProblem(response, status, 'x'));
  await rejection(createClient({ baseUrl: server.url }).regions.list());
  expect(server.requests).toHaveLength(1);
});

it('a read is repeated if the connection breaks, even in the middle of the answer', async () => {
  await using server = await startServer((request, response, n) => {
    if (n === 1) request.socket.destroy();
    else if (n === 2) {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' });
      response.write('{"object":', () => request.socket.destroy());
    } else sendJson(response, 200, OK);
  });
  await expect(createClient({ baseUrl: server.url }).regions.list()).resolves.toEqual(OK);
  expect(server.requests).toHaveLength(3);
});

it('makes two retries by default, then throws the last error', async () => {
  await using server = await startServer((_, response) => sendProblem(response, 503, 'overloaded'));
  expect(await rejection(createClient({ baseUrl: server.url }).status())).toMatchObject({ status: 503, attempts: 3 });
  expect(await rejection(createClient({ baseUrl: server.url, maxRetries: 0 }).status())).toMatchObject({ attempts: 1 });
  expect(server.requests).toHaveLength(4);
});

it('makes no retry if shouldRetry rejects the error', async () => {
  await using server = await startServer((_, response, n) =>
    sendProblem(response, 503, n === 1 ? 'overloaded' : 'deployment_moved'),
  );
  const shouldRetry = (error: unknown) => !(isApiError(error) && error.code === 'deployment_moved');
  const client = createClient({ baseUrl: server.url, token: 't', maxRetries: 5, shouldRetry });
  expect(await rejection(client.status())).toMatchObject({ code: 'deployment_moved', attempts: 2 });
  expect(server.requests).toHaveLength(2);
  expect(await rejection(client.control.media.upload(new Blob(['a'])))).toMatchObject({ code: 'deployment_moved' });
  expect(server.requests).toHaveLength(3);
});

it('waits for the time of Retry-After', async () => {
  await using server = await startServer((_, response, n) =>
    n === 1 ? sendProblem(response, 503, 'overloaded', { 'retry-after': '1' }) : sendJson(response, 200, OK),
  );
  const started = performance.now();
  await createClient({ baseUrl: server.url }).regions.list();
  expect(performance.now() - started).toBeGreaterThanOrEqual(990);
});

it('does not retry early if Retry-After is longer than the limit', async () => {
  await using server = await startServer((_, response) =>
    sendProblem(response, 429, 'rate_limited', { 'retry-after': '3600' }),
  );
  expect(await rejection(createClient({ baseUrl: server.url }).status())).toMatchObject({ retryAfterMs: 3_600_000 });
  expect(server.requests).toHaveLength(1);
});

it('an abort cuts the wait between attempts short, with its own reason', async () => {
  await using server = await startServer((_, response) =>
    sendProblem(response, 503, 'overloaded', { 'retry-after': '20' }),
  );
  const stop = new AbortController();
  setTimeout(() => stop.abort(new Error('changed my mind')), 100);
  const started = performance.now();
  await expect(createClient({ baseUrl: server.url }).status({ signal: stop.signal })).rejects.toThrow(
    'changed my mind',
  );
  expect(performance.now() - started).toBeLessThan(5_000);
  expect(server.requests).toHaveLength(1);
});

it('an abort ends a running request; an aborted signal sends nothing', async () => {
  await using server = await startServer(() => undefined);
  const client = createClient({ baseUrl: server.url, maxRetries: 0 });
  const reason = { any: 'value' };
  const stop = new AbortController();
  setTimeout(() => stop.abort(reason), 100);
  expect(await rejection(client.status({ signal: stop.signal }))).toBe(reason);
  expect(await rejection(client.status({ signal: stop.signal }))).toBe(reason);
  expect(server.requests).toHaveLength(1);
});

it('the time limit counts for one attempt, so a slow one leaves the next its time', async () => {
  await using server = await startServer((_, response, n) => {
    if (n > 1) sendJson(response, 200, OK);
  });
  await expect(createClient({ baseUrl: server.url, timeoutMs: 150 }).regions.list()).resolves.toEqual(OK);
  expect(server.requests).toHaveLength(2);
});

it('an answer that never ends is reported as a timeout', async () => {
  await using server = await startServer((_, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.write('{');
  });
  const error = await rejection(createClient({ baseUrl: server.url, timeoutMs: 150, maxRetries: 0 }).status());
  expect(error).toBeInstanceOf(TimeoutError);
  expect(error).toMatchObject({
    timeoutMs: 150,
    message: expect.stringMatching(/^GET .*status gave no answer within 150 ms$/),
  });
});

it('a started download may exceed the time limit, and its signal still ends it', async () => {
  await using server = await startServer((request, response) => {
    response.writeHead(200);
    response.write('a');
    if (request.url === '/slow') setTimeout(() => response.end('b'), 400);
  });
  const client = createClient({ baseUrl: server.url, timeoutMs: 150 });
  await expect((await client.download('/slow')).text()).resolves.toBe('ab');

  const stop = new AbortController();
  const endless = await client.download('/endless', { signal: stop.signal });
  setTimeout(() => stop.abort(new Error('enough')), 50);
  await expect(endless.text()).rejects.toThrow('enough');
});

it('a retry of a media object is not repeated, because the first may have succeeded', async () => {
  await using server = await startServer((_, response) => sendProblem(response, 503, 'overloaded'));
  await rejection(createClient({ baseUrl: server.url, token: 't' }).control.media.retry('med_1'));
  expect(server.requests).toEqual(['POST /control/v1/media/med_1/retry']);
});

it('a delete whose answer was lost counts as done', async () => {
  await using server = await startServer((request, response, n) =>
    n === 1 ? void request.socket.destroy() : sendProblem(response, 404, 'media_not_found'),
  );
  const { control } = createClient({ baseUrl: server.url, token: 't' });
  await expect(control.media.delete('med_1')).resolves.toBeUndefined();
  // Not found at the first request: this must be reported.
  await expect(control.media.delete('med_1')).rejects.toMatchObject({ status: 404 });
});

describe('the delay before a retry', () => {
  const answered = (status: number, retryAfterMs: number | null) =>
    new ApiError({ method: 'GET', url: '/', status, problem: null, requestId: null, retryAfterMs, reason: '' });
  const broken = new ConnectionError({ method: 'GET', url: '/' }, 'x', null, null);

  it('grows exponentially up to a limit, with full jitter', () => {
    const longest = [1, 2, 3, 4, 5, 6, 7, 20].map((attempt) => retryDelayMs(broken, attempt, () => 1));
    expect(longest).toEqual([250, 500, 1000, 2000, 4000, 8000, 8000, 8000]);
    expect(retryDelayMs(broken, 5, () => 0)).toBe(0);
  });

  it('is at least Retry-After, and null if Retry-After is too long', () => {
    expect(retryDelayMs(answered(503, 2_000), 1, () => 0.5)).toBe(2_125);
    expect(retryDelayMs(answered(503, MAX_RETRY_AFTER_MS), 1, () => 0)).toBe(MAX_RETRY_AFTER_MS);
    expect(retryDelayMs(answered(503, MAX_RETRY_AFTER_MS + 1), 1)).toBeNull();
    expect(retryDelayMs(answered(500, 1), 1)).toBeNull();
    expect(retryDelayMs(new Error('a bug'), 1)).toBeNull();
  });

  it.each([
    ['120', 120_000],
    [' 0 ', 0],
    ['Sat, 31 Jan 2026 08:15:10 GMT', 10_000],
    ['Sat, 31 Jan 2026 08:14:00 GMT', 0],
    ['soon', null],
    ['-5', null],
    ['1.5', null],
    ['', null],
    [null, null],
  ])('is read from Retry-After %j', (value, expected) => {
    expect(parseRetryAfterMs(value, Date.parse('2026-01-31T08:15:00Z'))).toBe(expected);
  });
});
