import type { Purge, PurgeResult } from '@mds/contract';
import { expect, it } from 'vitest';
import { createClient, InvalidRequestError, TimeoutError } from '../src/index.ts';
import { readBody, rejection, sendJson, sendProblem, startServer } from './http-server.ts';

const result: PurgeResult = {
  object: 'purge',
  id: '42',
  complete: false,
  receipts: [
    { region: 'fra1', node: 'origin:1', state: 'purged' },
    { region: 'ams1', node: 'edge:2', state: 'pending' },
  ],
};

it.each<[Purge]>([
  [{ media_id: 'med_01k0c4s6q8y2v4w6x8z0a2c4e6' }],
  [{ path: '/media/med_01k0c4s6q8y2v4w6x8z0a2c4e6/thumb.webp' }],
  [{ everything: true }],
])('a purge of %j returns every receipt, even if it is incomplete', async (what) => {
  const bodies: unknown[] = [];
  await using server = await startServer(async (request, response) => {
    bodies.push(JSON.parse((await readBody(request)).toString()));
    sendJson(response, 200, result);
  });
  const { control } = createClient({ baseUrl: server.url, token: 'secret' });
  expect(await control.cache.purge(what)).toEqual(result);
  await control.cache.purge(what, { wait: 0 });
  expect(bodies).toEqual([what, what]);
  expect(server.requests).toEqual(['POST /control/v1/cache/purge', 'POST /control/v1/cache/purge?wait=0']);
  expect(server.headers[0]).toMatchObject({ authorization: 'Bearer secret', 'content-type': 'application/json' });
});

it('a purge is repeated after a broken connection, because purging twice is harmless', async () => {
  await using server = await startServer((request, response, n) =>
    n === 1 ? void request.socket.destroy() : sendJson(response, 200, result),
  );
  await createClient({ baseUrl: server.url, token: 't' }).control.cache.purge({ everything: true });
  expect(server.requests).toHaveLength(2);
});

it('a purge that waits for nodes gets that time on top of its time limit', async () => {
  await using server = await startServer((_, response) => {
    setTimeout(() => sendJson(response, 200, result), 500);
  });
  const { control } = createClient({ baseUrl: server.url, token: 't', timeoutMs: 200, maxRetries: 0 });
  expect((await control.cache.purge({ everything: true }, { wait: 1 })).id).toBe('42');
  expect((await control.cache.purge({ everything: true })).id).toBe('42');
  expect(await rejection(control.cache.purge({ everything: true }, { wait: 0 }))).toBeInstanceOf(TimeoutError);
});

it('a purge of a path outside of delivery is an InvalidRequestError', async () => {
  await using server = await startServer((_, response) => sendProblem(response, 400, 'invalid_request'));
  const { control } = createClient({ baseUrl: server.url, token: 't' });
  expect(await rejection(control.cache.purge({ path: '/api/v1' }))).toBeInstanceOf(InvalidRequestError);
});
