import { createReadStream } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, expect, it, vi } from 'vitest';
import { ConnectionError, createClient, MdsError, TimeoutError, type UploadProgress } from '../src/index.ts';
import { readBody, rejection, sendJson, sendProblem, startServer, type TestServer } from './http-server.ts';

const CONTENT = Buffer.from('twelve bytes');

/** Answers with the body it got, as a media object's sha256, and its headers. */
function echoServer(): Promise<TestServer> {
  return startServer(async (request, response) => {
    const body = await readBody(request);
    sendJson(response, 201, { id: 'med_1', sha256: body.toString() });
  });
}

async function* pieces(...texts: string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield Buffer.from(text);
}

it.each([
  ['bytes', () => new Uint8Array(CONTENT), '12'],
  ['a Blob', () => new Blob([CONTENT]), '12'],
  ['a web stream', () => new Blob([CONTENT]).stream(), undefined],
  ['an async iterable', () => pieces('twelve ', 'bytes'), undefined],
  ['a Node stream', () => Readable.from([Buffer.from('twelve '), Buffer.from('bytes')]), undefined],
  ['a function that opens it', () => () => pieces('twelve ', 'bytes'), undefined],
])('%s arrive unchanged, with their length if it is known', async (_, make, length) => {
  await using server = await echoServer();
  const client = createClient({ baseUrl: server.url, token: 'secret' });
  const { media, created } = await client.control.media.ingest(make(), { filename: 'a b&c.jpg', duplicate: 'allow' });
  expect([media.sha256, created]).toEqual(['twelve bytes', true]);
  expect(server.requests).toEqual(['POST /control/v1/media?filename=a+b%26c.jpg&duplicate=allow']);
  expect(server.headers[0]).toMatchObject({
    authorization: 'Bearer secret',
    'content-type': 'application/octet-stream',
  });
  expect(server.headers[0]?.['content-length']).toBe(length);
});

it('a known length is sent, so that a file over the limit is refused at once', async () => {
  await using server = await echoServer();
  const client = createClient({ baseUrl: server.url, token: 't' });
  await client.control.media.ingest(pieces('twelve ', 'bytes'), { bytes: 12 });
  expect(server.headers[0]?.['content-length']).toBe('12');
});

it('an empty file is sent, so that the service can refuse it', async () => {
  await using server = await echoServer();
  const client = createClient({ baseUrl: server.url, token: 't' });
  const { media } = await client.control.media.ingest(new Uint8Array(0));
  expect(media.sha256).toBe('');
  expect(server.headers[0]?.['content-length']).toBe('0');
});

it('reports whether the media object is new', async () => {
  await using server = await startServer(async (request, response) => {
    await readBody(request);
    sendJson(response, 200, { id: 'med_1' });
  });
  const { created } = await createClient({ baseUrl: server.url, token: 't' }).control.media.ingest(new Uint8Array(3));
  expect(created).toBe(false);
});

it('reports its progress', async () => {
  await using server = await echoServer();
  const seen: UploadProgress[] = [];
  await createClient({ baseUrl: server.url, token: 't' }).control.media.ingest(pieces('twelve ', 'bytes'), {
    bytes: 12,
    onProgress: (progress) => seen.push(progress),
  });
  expect(seen).toEqual([
    { sentBytes: 7, totalBytes: 12 },
    { sentBytes: 12, totalBytes: 12 },
  ]);
});

it('two attempts use one idempotency key and create one media object', async () => {
  await using server = await startServer(async (request, response, n) => {
    if (n === 1) return void request.socket.destroy();
    const body = await readBody(request);
    if (n === 2) sendProblem(response, 503, 'overloaded');
    else sendJson(response, 201, { sha256: body.toString() });
  });
  const opened: number[] = [];
  const { media } = await createClient({ baseUrl: server.url, token: 't' }).control.media.ingest(() => {
    opened.push(1);
    return pieces('twelve ', 'bytes');
  });
  expect(media.sha256).toBe('twelve bytes');
  expect(opened).toHaveLength(3);
  const keys = server.headers.map((headers) => headers['idempotency-key']);
  expect(keys[0]).toMatch(/^[0-9a-f]{32}$/);
  expect(new Set(keys).size).toBe(1);
});

it("the caller's idempotency key is used", async () => {
  await using server = await echoServer();
  await createClient({ baseUrl: server.url, token: 't' }).control.media.ingest(new Uint8Array(1), {
    idempotencyKey: 'order-7',
  });
  expect(server.headers[0]?.['idempotency-key']).toBe('order-7');
});

it('a stream is sent only once, even with an idempotency key', async () => {
  await using server = await startServer(async (request, response) => {
    await readBody(request);
    sendProblem(response, 503, 'overloaded');
  });
  const { control } = createClient({ baseUrl: server.url, token: 't' });
  expect(await rejection(control.media.ingest(pieces('x'), { idempotencyKey: 'k' }))).toMatchObject({
    status: 503,
    attempts: 1,
  });
  expect(server.requests).toHaveLength(1);
});

it('a file of any size needs no more memory than the pieces in transit', async () => {
  await using server = await startServer(async (request, response) => {
    for await (const _ of request);
    sendJson(response, 201, {});
  });
  let peak = 0;
  async function* large(): AsyncGenerator<Uint8Array> {
    for (let n = 0; n < 512; n++) {
      peak = Math.max(peak, process.memoryUsage().arrayBuffers);
      yield new Uint8Array(524_288);
    }
  }
  await createClient({ baseUrl: server.url, token: 't' }).control.media.ingest(large);
  expect(peak).toBeLessThan(128 * 1024 * 1024);
});

it('a refusal that arrives before the body is sent is still read', async () => {
  await using server = await startServer((_, response) =>
    sendProblem(response, 413, 'payload_too_large', { connection: 'close' }),
  );
  const { control } = createClient({ baseUrl: server.url, token: 't' });
  let sent = 0;
  async function* huge(): AsyncGenerator<Uint8Array> {
    for (; sent < 4_000; sent++) yield new Uint8Array(65_536);
  }
  const error = await rejection(control.media.ingest(huge, { bytes: 4_000 * 65_536 }));
  expect(error).toMatchObject({ code: 'payload_too_large' });
  expect(sent).toBeLessThan(4_000);
});

it('an upload has no time limit while it makes progress', async () => {
  await using server = await echoServer();
  async function* slow(): AsyncGenerator<Uint8Array> {
    for (let n = 0; n < 6; n++) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      yield Buffer.from('x');
    }
  }
  const { control } = createClient({ baseUrl: server.url, token: 't', timeoutMs: 400 });
  await expect(control.media.ingest(slow())).resolves.toMatchObject({ media: { sha256: 'xxxxxx' } });
});

it('a stalled upload ends in a timeout and closes its source', async () => {
  await using server = await startServer((request) => void request.resume());
  let closed = false;
  async function* stuck(): AsyncGenerator<Uint8Array> {
    try {
      yield Buffer.from('x');
      await new Promise((resolve) => setTimeout(resolve, 600));
      yield Buffer.from('y');
    } finally {
      closed = true;
    }
  }
  const { control } = createClient({ baseUrl: server.url, token: 't', timeoutMs: 200 });
  expect(await rejection(control.media.ingest(stuck()))).toBeInstanceOf(TimeoutError);
  await expect.poll(() => closed, { timeout: 5_000 }).toBe(true);
});

it('an abort ends an upload with its own reason', async () => {
  await using server = await startServer((request) => void request.resume());
  const stop = new AbortController();
  const { control } = createClient({ baseUrl: server.url, token: 't' });
  const upload = control.media.ingest(new Blob([new Uint8Array(1_000)]), {
    signal: stop.signal,
    onProgress: () => stop.abort(new Error('enough')),
  });
  await expect(upload).rejects.toThrow('enough');
});

it.each([
  ['shorter than declared', () => pieces('twelve'), /ended after 6 of 12 bytes/],
  ['longer than declared', () => pieces('twelve bytes and more'), /longer than 12 bytes/],
  ['not made of bytes', () => Readable.from(['text']), /Uint8Array/],
  ['unreadable', () => createReadStream('/nonexistent/file'), /ENOENT/],
])('content that is %s is no network error and is not sent again', async (_, make, message) => {
  await using server = await startServer(async (request, response) => {
    await readBody(request);
    sendJson(response, 201, {});
  });
  const { control } = createClient({ baseUrl: server.url, token: 't' });
  const error = await rejection(control.media.ingest(() => make() as AsyncIterable<Uint8Array>, { bytes: 12 }));
  expect(error).toBeInstanceOf(MdsError);
  expect(error).not.toBeInstanceOf(ConnectionError);
  expect(String(error)).toMatch(message);
  expect(server.requests.length).toBeLessThanOrEqual(1);
});

it('a file is closed after the upload, even if nobody read it', async () => {
  const path = join(tmpdir(), `mds-client-${process.pid}`);
  await writeFile(path, CONTENT);
  const file = createReadStream(path);
  const client = createClient({
    baseUrl: 'http://127.0.0.1',
    token: 't',
    fetch: () => Promise.reject(new TypeError('fetch failed')),
  });
  expect(await rejection(client.control.media.ingest(file))).toBeInstanceOf(ConnectionError);
  await expect.poll(() => file.closed).toBe(true);
  await rm(path);
});

afterEach(() => {
  vi.unstubAllGlobals();
});

it('in a browser a Blob is sent whole, without our own Content-Length', async () => {
  await using server = await echoServer();
  vi.stubGlobal('document', {});
  const bodies: unknown[] = [];
  const client = createClient({
    baseUrl: server.url,
    token: 't',
    fetch: (url, init) => {
      bodies.push([init.body instanceof Blob, new Headers(init.headers).has('content-length')]);
      return fetch(url, init);
    },
  });
  expect((await client.control.media.ingest(new Blob([CONTENT]))).media.sha256).toBe('twelve bytes');
  expect(bodies).toEqual([[true, false]]);
});

it('a browser without request streams collects a stream before sending it', async () => {
  await using server = await echoServer();
  vi.stubGlobal('document', {});
  // Such a browser ignores `duplex` and sends the text "[object ReadableStream]".
  const Plain = globalThis.Request;
  vi.stubGlobal(
    'Request',
    class extends Plain {
      constructor(url: string, init: RequestInit) {
        super(url, { ...init, body: String(init.body) });
      }
    },
  );
  const { control } = createClient({ baseUrl: server.url, token: 't' });
  expect((await control.media.ingest(pieces('twelve ', 'bytes'))).media.sha256).toBe('twelve bytes');
  expect(server.headers[0]?.['content-length']).toBe('12');
});
