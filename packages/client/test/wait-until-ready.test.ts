import { expect, it } from 'vitest';
import { createClient, isMediaFailedError, TimeoutError } from '../src/index.ts';
import { rejection, sendJson, startServer, type TestServer } from './http-server.ts';

function statesServer(...states: string[]): Promise<TestServer> {
  return startServer((_, response, n) => {
    const status = states[Math.min(n, states.length) - 1];
    const error =
      status === 'failed' ? { code: 'corrupt_media', message: 'The file is damaged.', retryable: false } : null;
    sendJson(response, 200, { id: 'med_1', status, error });
  });
}

it('waits until the medium is ready and tells of every step, a state it does not know included', async () => {
  await using server = await statesServer('queued', 'levitating', 'processing', 'ready');
  const seen: string[] = [];
  const { control } = createClient({ baseUrl: server.url, token: 't' });
  const media = await control.media.waitUntilReady('med_1', { onUpdate: ({ status }) => seen.push(status) });
  expect(media.status).toBe('ready');
  expect(seen).toEqual(['queued', 'levitating', 'processing', 'ready']);
});

it('throws the failure of a medium that fails', async () => {
  await using server = await statesServer('processing', 'failed');
  const error = await rejection(
    createClient({ baseUrl: server.url, token: 't' }).control.media.waitUntilReady('med_1'),
  );
  if (!isMediaFailedError(error)) throw error;
  expect(error.failure).toEqual({ code: 'corrupt_media', message: 'The file is damaged.', retryable: false });
  expect(error.media.id).toBe('med_1');
  expect(error.message).toBe('med_1 failed: corrupt_media: The file is damaged.');
});

it('gives up after its own time limit, without a word to the service', async () => {
  await using server = await statesServer('processing');
  const { control } = createClient({ baseUrl: server.url, token: 't' });
  const error = await rejection(control.media.waitUntilReady('med_1', { timeoutMs: 300 }));
  expect(error).toBeInstanceOf(TimeoutError);
  expect(String(error)).toContain('med_1 was not ready within 300 ms');
  expect(server.requests.every((line) => line === 'GET /control/v1/media/med_1')).toBe(true);
});

it('asks less and less often', async () => {
  await using server = await statesServer('processing');
  const { control } = createClient({ baseUrl: server.url, token: 't' });
  await rejection(control.media.waitUntilReady('med_1', { timeoutMs: 1_500 }));
  expect(server.requests.length).toBeGreaterThan(2);
  expect(server.requests.length).toBeLessThan(6);
});

it('an abort ends the wait with its own reason', async () => {
  await using server = await statesServer('processing');
  const stop = new AbortController();
  setTimeout(() => stop.abort(new Error('never mind')), 100);
  const { control } = createClient({ baseUrl: server.url, token: 't' });
  await expect(control.media.waitUntilReady('med_1', { signal: stop.signal })).rejects.toThrow('never mind');
});
