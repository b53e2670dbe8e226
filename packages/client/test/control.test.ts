import { expect, it } from 'vitest';
import { ConnectionError, createClient, TimeoutError } from '../src/index.ts';
import { rejection, sendJson, startServer } from './http-server.ts';

it('explains the state of a media object', async () => {
  const explanation = {
    id: 'med_1',
    status: 'queued',
    waiting_for: 'It is the 3rd in the queue.',
    plan: [],
    attempts: [],
  };
  await using server = await startServer((_, response) => sendJson(response, 200, explanation));
  const found = await createClient({ baseUrl: server.url, token: 'secret' }).control.media.explain('med_1');
  expect(found).toEqual(explanation);
  expect(server.requests).toEqual(['GET /control/v1/media/med_1/explain']);
  expect(server.headers[0]?.authorization).toBe('Bearer secret');
});

it('a verification has its own long time limit, because every byte is read', async () => {
  await using server = await startServer((_, response) => {
    setTimeout(() => sendJson(response, 200, { id: 'med_1', original: 'sound' }), 400);
  });
  const { control } = createClient({ baseUrl: server.url, token: 't', timeoutMs: 100, maxRetries: 0 });
  expect(await rejection(control.media.get('med_1'))).toBeInstanceOf(TimeoutError);
  expect((await control.media.verify('med_1')).original).toBe('sound');
});

it('a verification that exceeds its own limit is not repeated', async () => {
  await using server = await startServer(() => undefined);
  const { control } = createClient({ baseUrl: server.url, token: 't' });
  const error = await rejection(control.media.verify('med_1', { timeoutMs: 150 }));
  expect(String(error)).toContain('gave no answer within 150 ms');
  expect(server.requests).toHaveLength(1);
});

it('a timeout of the runtime is named as such, and the verification is not repeated', async () => {
  let calls = 0;
  // Node's fetch rejects with this after 300 s without headers.
  const fetch = () => {
    calls++;
    const cause = Object.assign(new Error('Headers Timeout Error'), { code: 'UND_ERR_HEADERS_TIMEOUT' });
    return Promise.reject(new TypeError('fetch failed', { cause }));
  };
  const { control } = createClient({ baseUrl: 'http://127.0.0.1:1', token: 't', fetch });
  const error = await rejection(control.media.verify('med_1'));
  expect(error).toBeInstanceOf(TimeoutError);
  expect(error).not.toBeInstanceOf(ConnectionError);
  expect(String(error)).toContain("the most that this runtime's fetch waits");
  expect(calls).toBe(1);
});
