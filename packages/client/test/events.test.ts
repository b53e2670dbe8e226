import type { ServerResponse } from 'node:http';
import { expect, it } from 'vitest';
import { ApiError, ConnectionError, createClient, type Event, isAuthError, MdsError } from '../src/index.ts';
import { rejection, sendJson, sendProblem, startServer } from './http-server.ts';

const mediaObject = 'med_01k0c4s6q8y2v4w6x8z0a2c4e6';

function stateEvent(n: number, type: 'media.created' | 'media.ready' = 'media.ready'): Event {
  const status = type === 'media.ready' ? 'ready' : 'queued';
  return { id: String(n), created_at: '2026-01-31T08:15:00Z', type, data: { id: mediaObject, status, error: null } };
}

/** Writes events as the service does. */
function send(response: ServerResponse, ...events: Event[]): void {
  if (!response.headersSent) response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
  for (const event of events) {
    const id = 'id' in event ? `id: ${event.id}\n` : '';
    response.write(`${id}event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
  }
}

/** The first events of a stream; leaving the loop closes it. */
async function take<T>(count: number, events: AsyncIterable<T>): Promise<T[]> {
  const taken: T[] = [];
  for await (const event of events) if (taken.push(event) === count) break;
  return taken;
}

it('requests events after the given one, with the token, and yields them in order', async () => {
  await using server = await startServer((_, response) => send(response, stateEvent(8), stateEvent(9)));
  const { control } = createClient({ baseUrl: server.url, token: 'secret' });
  expect(await take(2, control.events({ after: '7' }))).toEqual([stateEvent(8), stateEvent(9)]);
  expect(server.requests).toEqual(['GET /control/v1/events?after=7']);
  expect(server.headers[0]).toMatchObject({ authorization: 'Bearer secret', accept: 'text/event-stream' });
});

it('closes the connection when the loop is left', async () => {
  let closed = false;
  await using server = await startServer((_, response) => {
    response.on('close', () => {
      closed = true;
    });
    send(response, stateEvent(1));
  });
  await take(1, createClient({ baseUrl: server.url, token: 't' }).control.events());
  await expect.poll(() => closed).toBe(true);
});

it('yields only the requested event types; without a choice, also unknown types', async () => {
  // The cast is the point: this client's contract does not know the type.
  const newer = { id: '2', created_at: '2026-01-31T08:15:00Z', type: 'media.levitated', data: {} } as unknown as Event;
  await using server = await startServer((_, response) =>
    send(response, newer, stateEvent(3, 'media.created'), stateEvent(4)),
  );
  const { control } = createClient({ baseUrl: server.url, token: 't' });
  const [ready] = await take(1, control.events({ types: ['media.ready'] }));
  const type: 'media.ready' | undefined = ready?.type;
  expect([type, ready?.id, ready?.data.id]).toEqual(['media.ready', '4', mediaObject]);
  expect(await take(1, control.events())).toEqual([newer]);
});

it('reconnects after a break and continues after the last event, even a filtered one', async () => {
  await using server = await startServer((request, response, n) => {
    if (n === 1) {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('retry: 50\n\n');
      send(response, stateEvent(1), stateEvent(2, 'media.created'));
      setTimeout(() => request.socket.destroy(), 50);
    } else if (n === 2) sendProblem(response, 503, 'overloaded');
    else if (n === 3) request.socket.destroy();
    else if (n === 4) {
      send(response, stateEvent(3));
      response.end();
    } else send(response, stateEvent(4));
  });
  const lost: unknown[] = [];
  let opened = 0;
  const events = createClient({ baseUrl: server.url, token: 't' }).control.events({
    after: '0',
    types: ['media.ready'],
    onOpen: () => opened++,
    onReconnect: ({ error }) => lost.push(error),
  });
  expect((await take(3, events)).map(({ id }) => id)).toEqual(['1', '3', '4']);
  expect(server.requests).toEqual([
    'GET /control/v1/events?after=0',
    ...Array.from({ length: 4 }, () => 'GET /control/v1/events'),
  ]);
  expect(server.headers.map((headers) => headers['last-event-id'])).toEqual([undefined, '2', '2', '2', '3']);
  expect(opened).toBe(3);
  expect(lost).toEqual([expect.any(ConnectionError), expect.any(ApiError), expect.any(ConnectionError), null]);
});

it('a silent connection is given up; one with comments only is kept', async () => {
  await using server = await startServer((_, response, n) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('retry: 10\nid: 5\n\n');
    if (n === 1) return;
    let comments = 0;
    const timer = setInterval(() => {
      if (++comments < 8) return void response.write(': still here\n\n');
      clearInterval(timer);
      send(response, stateEvent(6));
    }, 100);
  });
  const lost: unknown[] = [];
  const events = createClient({ baseUrl: server.url, token: 't', timeoutMs: 200 }).control.events({
    silenceMs: 400,
    onReconnect: ({ error }) => lost.push(error),
  });
  expect(await take(1, events)).toEqual([stateEvent(6)]);
  expect(lost.map(String)).toEqual(['TimeoutError: The event stream was silent for 400 ms']);
  // A stream may begin with an id and no event; the next request continues there.
  expect(server.headers.map((headers) => headers['last-event-id'])).toEqual([undefined, '5']);
});

it('a slow consumer of an event does not count as silence of the service', async () => {
  await using server = await startServer((_, response) => send(response, stateEvent(1), stateEvent(2)));
  const ids: string[] = [];
  for await (const event of createClient({ baseUrl: server.url, token: 't' }).control.events({ silenceMs: 100 })) {
    if ('id' in event && ids.push(event.id) === 2) break;
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  expect(ids).toEqual(['1', '2']);
  expect(server.requests).toHaveLength(1);
});

it.each([401, 403, 404])('%i ends the stream, at first or later, because a retry would not help', async (status) => {
  await using server = await startServer((_, response, n) => {
    if (n % 2 === 0) return sendProblem(response, status, 'no');
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end('retry: 10\n\n');
  });
  const events = createClient({ baseUrl: server.url, token: 't' }).control.events();
  const error = await rejection(events.next());
  expect(error).toMatchObject({ status, code: 'no' });
  expect(isAuthError(error)).toBe(status !== 404);
  expect(server.requests).toHaveLength(2);
  expect(await rejection(createClient({ baseUrl: server.url, token: 't' }).control.events().next())).toBeInstanceOf(
    ApiError,
  );
});

it('an unreachable service fails the first connection after the usual attempts', async () => {
  const server = await startServer(() => undefined);
  await server[Symbol.asyncDispose]();
  const client = createClient({ baseUrl: server.url, token: 't', maxRetries: 1 });
  expect(await rejection(client.control.events().next())).toBeInstanceOf(ConnectionError);
});

it.each([
  ['text/html', '<title>Welcome</title>', 'expected an event stream, got text/html'],
  ['text/event-stream', 'data: no json\n\n', 'not JSON'],
  ['text/event-stream', 'data: [1]\n\n', 'not an event'],
])('a response that is no event stream is reported as such: %s %j', async (type, body, reason) => {
  await using server = await startServer((_, response) => {
    response.writeHead(200, { 'content-type': type });
    response.end(body);
  });
  const error = await rejection(createClient({ baseUrl: server.url, token: 't' }).control.events().next());
  if (!(error instanceof MdsError)) throw error;
  expect(error.message).toContain(reason);
});

it('204 ends the stream without an error', async () => {
  await using server = await startServer((_, response) => void response.writeHead(204).end());
  expect(await take(1, createClient({ baseUrl: server.url, token: 't' }).control.events())).toEqual([]);
});

it.each([
  ['of a silent connection', 1],
  ['between two connections', 2],
])('an abort %s ends the stream with its own reason', async (_, when) => {
  await using server = await startServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(': hello\n\n');
    if (when === 2) response.end('retry: 60000\n\n');
  });
  const stop = new AbortController();
  setTimeout(() => stop.abort(new Error('never mind')), 150);
  const { control } = createClient({ baseUrl: server.url, token: 't' });
  await expect(control.events({ signal: stop.signal }).next()).rejects.toThrow('never mind');
});

it('an event stream without a token sends nothing', async () => {
  await using server = await startServer((_, response) => sendJson(response, 200, {}));
  expect(isAuthError(await rejection(createClient({ baseUrl: server.url }).control.events().next()))).toBe(true);
  expect(server.requests).toEqual([]);
});
