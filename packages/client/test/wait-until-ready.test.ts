import type { ServerResponse } from 'node:http';
import { expect, it } from 'vitest';
import { createClient, isMediaFailedError, type MediaProgress, TimeoutError } from '../src/index.ts';
import { rejection, sendJson, sendProblem, startServer, type TestServer } from './http-server.ts';

/** A service without events, which answers with one state after the other. */
function statesServer(...states: string[]): Promise<TestServer> {
  let answers = 0;
  return startServer((request, response) => {
    if (request.url === '/control/v1/events') return sendProblem(response, 404, 'route_not_found');
    const status = states[Math.min(++answers, states.length) - 1];
    const error =
      status === 'failed' ? { code: 'corrupt_media', message: 'The file is damaged.', retryable: false } : null;
    sendJson(response, 200, { id: 'med_1', status, error });
  });
}

/** A service with events, whose media the test changes. */
async function eventfulServer(media: Record<string, { status: string; progress?: number; renditions?: object[] }>) {
  const streams = new Set<ServerResponse>();
  const server = await startServer((request, response) => {
    if (request.url === '/control/v1/events') {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('retry: 20\n\n');
      streams.add(response);
      response.on('close', () => streams.delete(response));
      return;
    }
    const id = request.url?.split('/').at(-1) ?? '';
    sendJson(response, 200, { id, error: null, ...media[id] });
  });
  const send = (type: string, data: object) => {
    for (const stream of streams) stream.write(`data: ${JSON.stringify({ id: '1', type, data })}\n\n`);
  };
  const asked = () => server.requests.filter((line) => !line.endsWith('/events')).length;
  return { server, streams, send, asked, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

it('waits until ready and reports every step, even an unknown state', async () => {
  await using server = await statesServer('queued', 'levitating', 'processing', 'ready');
  const seen: string[] = [];
  const { control } = createClient({ baseUrl: server.url, token: 't' });
  const media = await control.media.waitUntilReady('med_1', { onUpdate: ({ status }) => seen.push(status) });
  expect(media.status).toBe('ready');
  expect(seen).toEqual(['queued', 'levitating', 'processing', 'ready']);
});

it('throws the failure of a media object that fails', async () => {
  await using server = await statesServer('processing', 'failed');
  const error = await rejection(
    createClient({ baseUrl: server.url, token: 't' }).control.media.waitUntilReady('med_1'),
  );
  if (!isMediaFailedError(error)) throw error;
  expect(error.failure).toEqual({ code: 'corrupt_media', message: 'The file is damaged.', retryable: false });
  expect(error.media.id).toBe('med_1');
  expect(error.message).toBe('med_1 failed: corrupt_media: The file is damaged.');
});

it('gives up after its own time limit without another request', async () => {
  await using server = await statesServer('processing');
  const { control } = createClient({ baseUrl: server.url, token: 't' });
  const error = await rejection(control.media.waitUntilReady('med_1', { timeoutMs: 300 }));
  expect(error).toBeInstanceOf(TimeoutError);
  expect(String(error)).toContain('med_1 was not ready within 300 ms');
  expect(new Set(server.requests)).toEqual(new Set(['GET /control/v1/media/med_1', 'GET /control/v1/events']));
});

it('polls less and less often', async () => {
  await using server = await statesServer('processing');
  const { control } = createClient({ baseUrl: server.url, token: 't' });
  await rejection(control.media.waitUntilReady('med_1', { timeoutMs: 1_500 }));
  const asked = server.requests.filter((line) => line.endsWith('/med_1')).length;
  expect(asked).toBeGreaterThan(2);
  expect(asked).toBeLessThan(6);
});

it('an abort ends the wait with its own reason', async () => {
  await using server = await statesServer('processing');
  const stop = new AbortController();
  setTimeout(() => stop.abort(new Error('never mind')), 100);
  const { control } = createClient({ baseUrl: server.url, token: 't' });
  await expect(control.media.waitUntilReady('med_1', { signal: stop.signal })).rejects.toThrow('never mind');
});

it('a ready media object costs one request and no connection', async () => {
  await using it = await eventfulServer({ med_1: { status: 'ready' } });
  await createClient({ baseUrl: it.server.url, token: 't' }).control.media.waitUntilReady('med_1');
  expect(it.server.requests).toEqual(['GET /control/v1/media/med_1']);
});

it('with events, requests only after changes, and reports progress between', async () => {
  const media = { med_1: { status: 'queued' } as { status: string; progress?: number } };
  await using it = await eventfulServer(media);
  const seen: MediaProgress[] = [];
  const { control } = createClient({ baseUrl: it.server.url, token: 't' });
  const waiting = control.media.waitUntilReady('med_1', { onProgress: (progress) => seen.push(progress) });
  await expect.poll(() => it.streams.size).toBe(1);
  media.med_1 = { status: 'processing', progress: 0 };
  it.send('media.processing', { id: 'med_1', status: 'processing', error: null });
  await expect.poll(() => seen.length).toBe(2);
  for (const progress of [0.25, 0.25, 0.5]) it.send('media.progress', { id: 'med_1', progress });
  it.send('media.progress', { id: 'med_2', progress: 0.9 });
  // These events concern no media object: they must cause no request and no error.
  it.send('region.status_changed', { code: 'fra1', status: 'partial_outage' });
  it.send('cache.purged', { media_id: null, path: null });
  it.send('cache.purged', { media_id: 'med_1', path: null });
  await expect.poll(() => seen.length).toBe(4);
  // Longer than the pauses between polls without events.
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  expect(it.asked()).toBeLessThanOrEqual(4);
  media.med_1 = { status: 'ready' };
  it.send('media.ready', { id: 'med_1', status: 'ready', error: null });
  const readyAt = performance.now();
  expect((await waiting).status).toBe('ready');
  expect(performance.now() - readyAt).toBeLessThan(1_000);
  expect(seen).toEqual([
    { status: 'queued', progress: null },
    { status: 'processing', progress: 0 },
    { status: 'processing', progress: 0.25 },
    { status: 'processing', progress: 0.5 },
    { status: 'ready', progress: null },
  ]);
  // Nobody waits any more, so nobody listens.
  await expect.poll(() => it.streams.size).toBe(0);
});

it('many waits share one connection, and each gets its own changes', async () => {
  const ids = Array.from({ length: 20 }, (_, n) => `med_${n}`);
  const media = Object.fromEntries(ids.map((id) => [id, { status: 'processing' }]));
  await using it = await eventfulServer(media);
  const { control } = createClient({ baseUrl: it.server.url, token: 't' });
  const waiting = ids.map((id) => control.media.waitUntilReady(id));
  await expect.poll(() => it.asked()).toBe(40);
  media['med_3'] = { status: 'ready' };
  it.send('media.ready', { id: 'med_3', status: 'ready', error: null });
  expect((await waiting[3])?.id).toBe('med_3');
  expect(it.asked()).toBe(41);
  expect(it.server.requests.filter((line) => line.endsWith('/events'))).toHaveLength(1);
  for (const id of ids) media[id] = { status: 'ready' };
  for (const id of ids) it.send('media.ready', { id, status: 'ready', error: null });
  await Promise.all(waiting);
});

it('changes during a lost connection are still noticed', async () => {
  const media = { med_1: { status: 'processing' } };
  await using it = await eventfulServer(media);
  const { control } = createClient({ baseUrl: it.server.url, token: 't' });
  const waiting = control.media.waitUntilReady('med_1');
  await expect.poll(() => it.asked()).toBe(2);
  media.med_1 = { status: 'ready' };
  for (const stream of it.streams) stream.destroy();
  expect((await waiting).status).toBe('ready');
});

it('with `renditions`, waits for pending renditions of a ready media object', async () => {
  const media = { med_1: { status: 'ready', renditions: [{ state: 'ready' }, { state: 'pending' }] } };
  await using it = await eventfulServer(media);
  const { control } = createClient({ baseUrl: it.server.url, token: 't' });
  let done = false;
  const waiting = control.media.waitUntilReady('med_1', { renditions: true }).then(() => {
    done = true;
  });
  await expect.poll(() => it.asked()).toBe(2);
  expect(done).toBe(false);
  media.med_1 = { status: 'ready', renditions: [{ state: 'ready' }, { state: 'ready' }] };
  it.send('rendition.ready', { id: 'med_1', name: 'hls', extension: 'm3u8', revision: '0a1b2c3d' });
  await waiting;
});
