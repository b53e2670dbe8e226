import { describe, expect, it } from 'vitest';
import { noisePng } from '../../test/support/pictures.ts';
import { originalKey } from '../base/object-key.ts';
import { ingestFixture, sha256 } from '../ingest/ingest.fixture.ts';
import { runnerFixture } from './fetch-runner.fixture.ts';
import { sendFile, startRawSource, startSource } from './scripted-source.fixture.ts';

const ingest = ingestFixture();
const { add, find, over, parts, run } = runnerFixture(ingest);
/** About 1.4 MB: more than all buffers between source and runner. */
const picture = noisePng('fetched', 800, 600);

const mediaObjectOf = async ({ mediaId }: { mediaId: string | null }) => ingest.repositories.media.find(mediaId ?? '');
/** The offset at which each request resumes. */
const offsets = (requests: string[]) => requests.map((line) => Number(/ bytes=(\d+)-$/.exec(line)?.[1] ?? 0));
const _stored = async (sha: string) => ingest.store.readAll(originalKey(sha));

describe('a broken connection', () => {
  it('is opened again, and the transfer resumes where it broke', async () => {
    const source = await startSource((request, response, n) =>
      sendFile(request, response, { bytes: picture, etag: '"v1"', ...(n <= 5 ? { cutAfter: 200_000 } : {}) }),
    );
    const fetch = await over(await run(), await add(source.url('/')));
    expect(fetch).toMatchObject({ status: 'done', attempts: 6 });
    const from = offsets(source.requests);
    expect(from).toHaveLength(6);
    // Each attempt adds bytes, though some bytes in flight may be lost when the connection breaks.
    for (const [n, offset] of from.entries()) if (n > 0) expect(offset).toBeGreaterThan(from[n - 1] ?? 0);
    expect(source.headers[1]).toMatchObject({ 'if-range': '"v1"' });
    expect((await mediaObjectOf(fetch))?.sha256).toBe(sha256(picture));
  });

  it('to a changed file starts again, so that two versions are never mixed', async () => {
    const other = noisePng('other', 700, 600);
    const source = await startSource((request, response, n) =>
      n === 1
        ? sendFile(request, response, { bytes: picture, etag: '"v1"', cutAfter: 300_000 })
        : sendFile(request, response, { bytes: other, etag: '"v2"' }),
    );
    const fetch = await over(await run(), await add(source.url('/')));
    expect((await mediaObjectOf(fetch))?.sha256).toBe(sha256(other));
    expect(offsets(source.requests)).toEqual([0, expect.toSatisfy((at: number) => at > 0)]);
  });

  it.each([
    ['another ETag', { etag: '"v2"', 'content-range': `bytes FROM-${picture.length - 1}/${picture.length}` }],
    ['another size', { etag: '"v1"', 'content-range': `bytes FROM-${picture.length}/${picture.length + 1}` }],
    ['another place', { etag: '"v1"', 'content-range': `bytes 7-${picture.length - 1}/${picture.length}` }],
    ['no range', { etag: '"v1"' }],
    ['several parts', { 'content-type': 'multipart/byteranges; boundary=x' }],
  ])('to a source whose 206 has %s starts again', async (_, headers) => {
    const source = await startSource((request, response) => {
      if (request.headers.range === undefined) {
        sendFile(request, response, {
          bytes: picture,
          etag: '"v1"',
          ...(source.requests.length === 1 ? { cutAfter: 300_000 } : {}),
        });
      } else {
        const from = /\d+/.exec(request.headers.range)?.[0] ?? '';
        const fields = Object.entries(headers).map(([name, value]) => [name, value.replace('FROM', from)]);
        response.writeHead(206, Object.fromEntries(fields)).end(picture.subarray(Number(from)));
      }
    });
    const fetch = await over(await run(), await add(source.url('/')));
    expect((await mediaObjectOf(fetch))?.sha256).toBe(sha256(picture));
    expect(offsets(source.requests)).toEqual([0, expect.toSatisfy((at: number) => at > 0), 0]);
  });

  it('to a source without a strong validator starts again', async () => {
    for (const headers of [{}, { etag: 'W/"weak"' }, { etag: '"v1"', 'accept-ranges': 'none' }]) {
      const source = await startSource((_, response, n) => {
        response.writeHead(200, { ...headers, 'content-length': picture.length });
        if (n === 1) response.write(picture.subarray(0, 300_000), () => response.socket?.end());
        else response.end(picture);
      });
      await over(await run(), await add(source.url('/')));
      expect(source.requests).toEqual(['GET /', 'GET /']);
    }
  });

  it('without progress is given up after three attempts, with the reason', async () => {
    const source = await startRawSource((socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf'));
    const fetch = await over(await run(), await add(source.url('/')));
    expect(fetch).toMatchObject({
      status: 'failed',
      attempts: 3,
      failure: { code: 'source_incomplete', retryable: true },
    });
    await expect.poll(parts).toEqual([]);
  });

  it('to a source with Retry-After waits as long as asked', async () => {
    const source = await startSource((request, response, n) => {
      if (n === 1) response.writeHead(429, { 'retry-after': '1' }).end();
      else sendFile(request, response, { bytes: picture });
    });
    const beganMs = performance.now();
    expect(await over(await run(), await add(source.url('/')))).toMatchObject({ status: 'done', attempts: 2 });
    expect(performance.now() - beganMs).toBeGreaterThan(950);
  });
});

describe('fault 10: a source that lies', () => {
  it('about its length, sending less, is never taken for the file', async () => {
    const source = await startRawSource((socket) =>
      socket.end(
        Buffer.concat([Buffer.from(`HTTP/1.1 200 OK\r\nContent-Length: ${picture.length + 1}\r\n\r\n`), picture]),
      ),
    );
    expect(await over(await run(), await add(source.url('/')))).toMatchObject({
      failure: { code: 'source_incomplete' },
    });
  });

  it('about its length, ending a chunked response early, is never taken for the file', async () => {
    const source = await startRawSource((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
      socket.write(`${picture.length.toString(16)}\r\n`);
      socket.end(Buffer.concat([picture, Buffer.from('\r\n')]));
    });
    expect(await over(await run(), await add(source.url('/')))).toMatchObject({
      failure: { code: 'source_incomplete' },
    });
  });

  it('about its length, sending more, adds nothing to the file', async () => {
    const source = await startRawSource((socket) =>
      socket.end(
        Buffer.concat([
          Buffer.from(`HTTP/1.1 200 OK\r\nContent-Length: ${picture.length}\r\n\r\n`),
          picture,
          Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmore'),
        ]),
      ),
    );
    const fetch = await over(await run(), await add(source.url('/')));
    expect(await mediaObjectOf(fetch)).toMatchObject({ sha256: sha256(picture), bytes: picture.length });
  });

  it('with two different lengths is not believed', async () => {
    const source = await startRawSource((socket) =>
      socket.end('HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nhello'),
    );
    expect(await over(await run(), await add(source.url('/')))).toMatchObject({
      failure: { code: 'source_unreachable' },
    });
  });

  it('about the size of a range, sending less, is asked for the rest', async () => {
    const source = await startSource((request, response) => {
      const from = Number(/bytes=(\d+)/.exec(request.headers.range ?? '')?.[1] ?? 0);
      if (from === 0) sendFile(request, response, { bytes: picture, etag: '"v"', cutAfter: 400_000 });
      else {
        const to = Math.min(picture.length, from + 900_000);
        const range = `bytes ${from}-${to - 1}/${picture.length}`;
        response.writeHead(206, { etag: '"v"', 'content-range': range }).end(picture.subarray(from, to));
      }
    });
    const fetch = await over(await run(), await add(source.url('/')));
    expect((await mediaObjectOf(fetch))?.sha256).toBe(sha256(picture));
    const [first = 0, second = 0] = offsets(source.requests).filter((at) => at > 0);
    expect(second - first).toBe(900_000);
  });
});

describe('fault 10: an endless source', () => {
  it('that announces too many bytes is not read at all', async () => {
    const source = await startSource((_, response) =>
      response.writeHead(200, { 'content-length': 5_000_000 }).write('x'),
    );
    const fetch = await over(await run({ maxBytes: 1_000_000 }), await add(source.url('/')));
    expect(fetch).toMatchObject({
      attempts: 1,
      receivedBytes: 0,
      failure: { code: 'payload_too_large', retryable: false },
    });
  });

  it('that announces no length is cut off at the limit', async () => {
    let sent = 0;
    const source = await startSource((_, response) => {
      const more = () => {
        while (!response.destroyed && response.write(picture)) sent += picture.length;
      };
      response.on('drain', more);
      more();
    });
    const fetch = await over(await run({ maxBytes: 3_000_000 }), await add(source.url('/')));
    expect(fetch).toMatchObject({ attempts: 1, failure: { code: 'payload_too_large' } });
    expect(fetch.receivedBytes).toBeLessThanOrEqual(3_000_000);
    expect(sent).toBeLessThan(30_000_000);
    await expect.poll(parts).toEqual([]);
  });

  it('that trickles is given up: an occasional byte keeps no connection open', async () => {
    const source = await startSource((_, response) => {
      const timer = setInterval(() => response.write('x'), 20);
      response.once('close', () => clearInterval(timer));
    });
    const retryRules = { maxWithoutProgress: 1, maxInterrupted: 10, maxAttempts: 1, firstDelayMs: 5 };
    const runner = await run({ idleLimit: { idleMs: 400, minBytes: 1024 }, retryRules });
    expect(await over(runner, await add(source.url('/')))).toMatchObject({
      failure: { code: 'source_timeout', message: expect.stringContaining('0.4 seconds') },
    });
  });

  it('that is just fast enough is given up after the total time, restarts included', async () => {
    const source = await startSource((_, response, n) => {
      const timer = setInterval(
        () => (n === 1 && source.requests.length === 1 ? response.write(Buffer.alloc(2000)) : response.write('x')),
        20,
      );
      response.once('close', () => clearInterval(timer));
    });
    const id = await add(source.url('/'));
    const timeoutMs = 4_000;
    const first = await run({ timeoutMs, idleLimit: { idleMs: 10_000, minBytes: 1 } });
    await expect.poll(() => source.requests.length).toBe(1);
    await new Promise((resolve) => setTimeout(resolve, 2_500));
    await first.stop();
    expect((await find(id)).spentMs).toBeGreaterThan(2_000);
    const beganMs = performance.now();
    const second = await run({ timeoutMs, idleLimit: { idleMs: 10_000, minBytes: 1 } });
    expect(await over(second, id)).toMatchObject({
      status: 'failed',
      failure: { code: 'source_timeout', retryable: false },
    });
    expect(performance.now() - beganMs).toBeLessThan(timeoutMs - 100);
  });
});
