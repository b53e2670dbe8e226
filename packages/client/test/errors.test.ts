import { expect, it } from 'vitest';
import {
  ApiError,
  ConflictError,
  ConnectionError,
  createClient,
  ForbiddenError,
  InvalidRequestError,
  isApiError,
  isAuthError,
  isConnectionError,
  isMdsError,
  isNotFoundError,
  MdsError,
  MissingTokenError,
  NotFoundError,
  RateLimitError,
  UnauthorizedError,
} from '../src/index.ts';
import { rejection, sendJson, sendProblem, startServer } from './http-server.ts';

it.each([
  [400, 'invalid_request', InvalidRequestError],
  [401, 'unauthorized', UnauthorizedError],
  [403, 'forbidden', ForbiddenError],
  [404, 'media_not_found', NotFoundError],
  [409, 'state_conflict', ConflictError],
  [422, 'corrupt_media', InvalidRequestError],
  [429, 'rate_limited', RateLimitError],
  [500, 'internal_error', ApiError],
  [507, 'insufficient_storage', ApiError],
])('status %i is an error of its own class with the request and the reason', async (status, code, Kind) => {
  await using server = await startServer((_, response) => sendProblem(response, status, code, { 'retry-after': '90' }));
  const client = createClient({ baseUrl: server.url, token: 'hunter2', maxRetries: 0 });
  const error = await rejection(client.control.media.get('med_1'));
  expect(error).toBeInstanceOf(Kind);
  expect(error).toBeInstanceOf(MdsError);
  expect(error).toMatchObject({
    name: Kind.name,
    status,
    code,
    requestId: 'req-7',
    retryAfterMs: 90_000,
    method: 'GET',
    url: `${server.url}/control/v1/media/med_1`,
    problem: { detail: `detail of ${code}` },
    message: `GET ${server.url}/control/v1/media/med_1 answered ${status} ${code}: detail of ${code} (request req-7)`,
  });
  expect(String(error)).not.toContain('hunter2');
  expect(isMdsError(error) && isApiError(error)).toBe(true);
  expect(isNotFoundError(error)).toBe(status === 404);
  expect(isAuthError(error)).toBe(status === 401 || status === 403);
});

it('an unknown code of a newer service is passed on', async () => {
  await using server = await startServer((_, response) => sendProblem(response, 418, 'teapot'));
  const error = await rejection(createClient({ baseUrl: server.url }).status());
  expect(error).toMatchObject({ status: 418, code: 'teapot' });
});

it('an error lists the parts of the input that were wrong', async () => {
  const issue = { in: 'query', path: 'limit', message: 'must be at most 100' };
  await using server = await startServer((_, response) =>
    sendJson(response, 400, { title: 'Bad', status: 400, code: 'invalid_request', errors: [issue] }),
  );
  const error = await rejection(createClient({ baseUrl: server.url }).media.list({ limit: 500 }));
  expect(error).toMatchObject({ issues: [issue], message: expect.stringContaining('Bad') });
});

it("a proxy's page is distinguished from the service's answer, whatever its status", async () => {
  await using server = await startServer((_, response, n) => {
    response.writeHead(n === 1 ? 500 : 200, { 'content-type': 'text/html; charset=utf-8' });
    response.end('<html><head><title>Welcome to\n nginx!</title></head></html>');
  });
  const client = createClient({ baseUrl: server.url });
  const [failed, odd] = [await rejection(client.status()), await rejection(client.status())];
  expect(failed).toMatchObject({ status: 500, code: null, problem: null });
  expect(String(failed)).toContain('answered 500: not an answer of this service, but text/html ("Welcome to nginx!")');
  expect(odd).toBeInstanceOf(ApiError);
  expect(String(odd)).toContain(
    'answered 200: expected JSON, got text/html ("Welcome to nginx!"); is this the address of the service?',
  );
});

it('JSON that is cut short or empty is an ApiError, not a SyntaxError', async () => {
  await using server = await startServer((_, response, n) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(n === 1 ? '{"object":' : '');
  });
  const client = createClient({ baseUrl: server.url });
  expect(String(await rejection(client.status()))).toContain('expected JSON, got application/json ("{"object":")');
  expect(String(await rejection(client.status()))).toContain('an empty body');
});

it('an endless error body is read only up to a limit', async () => {
  await using server = await startServer((_, response) => {
    response.writeHead(500, { 'content-type': 'text/plain' });
    const more = () => {
      while (response.write('x'.repeat(65_536)));
    };
    response.on('drain', more);
    more();
  });
  const error = await rejection(createClient({ baseUrl: server.url, timeoutMs: 5_000 }).status());
  expect(error).toMatchObject({ status: 500 });
  expect(String(error).length).toBeLessThan(400);
});

it('a connection error contains the address and the cause', async () => {
  const server = await startServer(() => undefined);
  await server[Symbol.asyncDispose]();
  const error = await rejection(createClient({ baseUrl: server.url, maxRetries: 0 }).status());
  expect(error).toBeInstanceOf(ConnectionError);
  expect(isConnectionError(error)).toBe(true);
  expect(error).toMatchObject({ code: 'ECONNREFUSED', method: 'GET', cause: expect.any(Error) });
  expect(String(error)).toMatch(/GET http:\/\/127\.0\.0\.1:\d+\/api\/v1\/status got no answer: connect ECONNREFUSED/);
});

it('a control call without a token sends nothing', async () => {
  await using server = await startServer((_, response) => sendJson(response, 200, {}));
  const { control } = createClient({ baseUrl: server.url });
  for (const call of [
    () => control.media.get('med_1'),
    () => control.media.list(),
    () => control.media.ingest(new Uint8Array(1)),
  ]) {
    const error = await rejection(call());
    expect(error).toBeInstanceOf(MissingTokenError);
    expect(isAuthError(error)).toBe(true);
  }
  expect(server.requests).toEqual([]);
});

it('an id with dots or slashes cannot lead to another path', async () => {
  await using server = await startServer((_, response) => sendJson(response, 200, {}));
  const { control } = createClient({ baseUrl: server.url, token: 't' });
  await control.media.get('../tokens?x=1#y');
  await control.media.get('a/b');
  expect(server.requests).toEqual(['GET /control/v1/media/..%2Ftokens%3Fx%3D1%23y', 'GET /control/v1/media/a%2Fb']);
  for (const id of ['', '.', '..']) await expect(control.media.delete(id)).rejects.toThrow(/cannot stand for id/);
});
