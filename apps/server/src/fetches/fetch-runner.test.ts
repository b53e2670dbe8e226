import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { noisePng } from '../../test/pictures.ts';
import { ingestFixture, sha256 } from '../ingest/ingest.fixture.ts';
import { createStagingSpace } from '../ingest/staging-space.ts';
import { originalKey } from '../storage/object-store.ts';
import { runnerFixture } from './fetch-runner.fixture.ts';
import { recoverFetches } from './fetch-runner.ts';
import { sendFile, startRawSource, startSource } from './scripted-source.fixture.ts';

const ingest = ingestFixture();
const { add, find, log, over, parts, run } = runnerFixture(ingest);
/** About 1.4 MB: more than all buffers on the way. */
const picture = noisePng('fetched', 800, 600);

const mediumOf = async ({ mediaId }: { mediaId: string | null }) => ingest.repositories.media.find(mediaId ?? '');
/** Where each request went on. */
const offsets = (requests: string[]) => requests.map((line) => Number(/ bytes=(\d+)-$/.exec(line)?.[1] ?? 0));
const stored = async (sha: string) => ingest.store.readAll(originalKey(sha));

describe('a fetch', () => {
  it('becomes a medium, byte for byte, and leaves nothing else behind', async () => {
    const source = await startSource((request, response) => sendFile(request, response, { bytes: picture }));
    const id = await add(source.url('/lake.png?token=secret'));
    const fetch = await over(await run(), id);
    expect(fetch).toMatchObject({ status: 'done', attempts: 1, receivedBytes: picture.length, mediaCreated: true });
    expect(fetch).toMatchObject({ totalBytes: picture.length, failure: null, sourceUrl: source.url('/lake.png') });
    expect(await mediumOf(fetch)).toMatchObject({
      filename: 'a.png',
      sha256: sha256(picture),
      contentType: 'image/png',
    });
    expect((await stored(sha256(picture)))?.equals(picture)).toBe(true);
    await expect.poll(parts).toEqual([]);
    expect(log.join('')).toContain(id);
    expect(log.join('')).not.toContain('secret');
  });

  it('of bytes that the project has gives the medium that has them', async () => {
    const source = await startSource((request, response) => sendFile(request, response, { bytes: picture }));
    const runner = await run();
    const first = await over(runner, await add(source.url('/a')));
    const again = await over(runner, await add(source.url('/b')));
    expect(again).toMatchObject({ status: 'done', mediaId: first.mediaId, mediaCreated: false });
    const another = await over(runner, await add(source.url('/c'), { duplicate: 'allow' }));
    expect(another.mediaCreated).toBe(true);
    expect(another.mediaId).not.toBe(first.mediaId);
  });

  it('of what is no medium fails at once, and nothing is kept', async () => {
    const source = await startSource((_, response) => response.end('just a text, no picture '.repeat(20)));
    const fetch = await over(await run(), await add(source.url('/a.png')));
    expect(fetch).toMatchObject({
      status: 'failed',
      attempts: 1,
      failure: { code: 'unsupported_format', retryable: false },
    });
    await expect.poll(parts).toEqual([]);
    await ingest.expectNothingKept();
  });

  it('of an empty file says so', async () => {
    const source = await startSource((_, response) => response.end());
    expect(await over(await run(), await add(source.url('/')))).toMatchObject({ failure: { code: 'empty_file' } });
  });
});

describe('a connection that breaks', () => {
  it('is made again, and goes on where it broke', async () => {
    const source = await startSource((request, response, n) =>
      sendFile(request, response, { bytes: picture, etag: '"v1"', ...(n <= 5 ? { cutAfter: 200_000 } : {}) }),
    );
    const fetch = await over(await run(), await add(source.url('/')));
    expect(fetch).toMatchObject({ status: 'done', attempts: 6 });
    const from = offsets(source.requests);
    expect(from).toHaveLength(6);
    // Each brought something, though of what was on its way when the connection broke some may be lost.
    for (const [n, offset] of from.entries()) if (n > 0) expect(offset).toBeGreaterThan(from[n - 1] ?? 0);
    expect(source.headers[1]).toMatchObject({ 'if-range': '"v1"' });
    expect((await mediumOf(fetch))?.sha256).toBe(sha256(picture));
  });

  it('to a file that has changed meanwhile begins anew: never half of one and half of the other', async () => {
    const other = noisePng('other', 700, 600);
    const source = await startSource((request, response, n) =>
      n === 1
        ? sendFile(request, response, { bytes: picture, etag: '"v1"', cutAfter: 300_000 })
        : sendFile(request, response, { bytes: other, etag: '"v2"' }),
    );
    const fetch = await over(await run(), await add(source.url('/')));
    expect((await mediumOf(fetch))?.sha256).toBe(sha256(other));
    expect(offsets(source.requests)).toEqual([0, expect.toSatisfy((at: number) => at > 0)]);
  });

  it.each([
    ['another ETag', { etag: '"v2"', 'content-range': `bytes FROM-${picture.length - 1}/${picture.length}` }],
    ['another size', { etag: '"v1"', 'content-range': `bytes FROM-${picture.length}/${picture.length + 1}` }],
    ['another place', { etag: '"v1"', 'content-range': `bytes 7-${picture.length - 1}/${picture.length}` }],
    ['no range', { etag: '"v1"' }],
    ['several parts', { 'content-type': 'multipart/byteranges; boundary=x' }],
  ])('to a source whose 206 has %s begins anew', async (_, headers) => {
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
    expect((await mediumOf(fetch))?.sha256).toBe(sha256(picture));
    expect(offsets(source.requests)).toEqual([0, expect.toSatisfy((at: number) => at > 0), 0]);
  });

  it('to a source without a strong validator begins anew', async () => {
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

  it('without coming any further is given up after three attempts, with the reason', async () => {
    const source = await startRawSource((socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf'));
    const fetch = await over(await run(), await add(source.url('/')));
    expect(fetch).toMatchObject({
      status: 'failed',
      attempts: 3,
      failure: { code: 'source_incomplete', retryable: true },
    });
    await expect.poll(parts).toEqual([]);
  });

  it('waits as long as the source asks for', async () => {
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
  it('about its length, giving less: never taken for the file', async () => {
    const source = await startRawSource((socket) =>
      socket.end(
        Buffer.concat([Buffer.from(`HTTP/1.1 200 OK\r\nContent-Length: ${picture.length + 1}\r\n\r\n`), picture]),
      ),
    );
    expect(await over(await run(), await add(source.url('/')))).toMatchObject({
      failure: { code: 'source_incomplete' },
    });
  });

  it('about its length, ending a chunked answer early: never taken for the file', async () => {
    const source = await startRawSource((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
      socket.write(`${picture.length.toString(16)}\r\n`);
      socket.end(Buffer.concat([picture, Buffer.from('\r\n')]));
    });
    expect(await over(await run(), await add(source.url('/')))).toMatchObject({
      failure: { code: 'source_incomplete' },
    });
  });

  it('about its length, giving more: what comes after the announced end is not part of the file', async () => {
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
    expect(await mediumOf(fetch)).toMatchObject({ sha256: sha256(picture), bytes: picture.length });
  });

  it('with two lengths at once is not believed', async () => {
    const source = await startRawSource((socket) =>
      socket.end('HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nhello'),
    );
    expect(await over(await run(), await add(source.url('/')))).toMatchObject({
      failure: { code: 'source_unreachable' },
    });
  });

  it('about the size of a part, giving less, is asked for the rest', async () => {
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
    expect((await mediumOf(fetch))?.sha256).toBe(sha256(picture));
    const [first = 0, second = 0] = offsets(source.requests).filter((at) => at > 0);
    expect(second - first).toBe(900_000);
  });
});

describe('fault 10: a source without end', () => {
  it('that announces too much is not read at all', async () => {
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

  it('that does not say how much is cut off at the limit', async () => {
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

  it('that trickles is given up: a byte now and then does not keep a connection', async () => {
    const source = await startSource((_, response) => {
      const timer = setInterval(() => response.write('x'), 20);
      response.once('close', () => clearInterval(timer));
    });
    const retryRules = { maxFruitless: 1, maxAttempts: 1, firstDelayMs: 5 };
    const runner = await run({ patience: { idleMs: 400, minBytes: 1024 }, retryRules });
    expect(await over(runner, await add(source.url('/')))).toMatchObject({
      failure: { code: 'source_timeout', message: expect.stringContaining('0.4 seconds') },
    });
  });

  it('that is just fast enough for that is given up after the time that a fetch has in all, restarts included', async () => {
    const source = await startSource((_, response, n) => {
      const timer = setInterval(
        () => (n === 1 && source.requests.length === 1 ? response.write(Buffer.alloc(2000)) : response.write('x')),
        20,
      );
      response.once('close', () => clearInterval(timer));
    });
    const id = await add(source.url('/'));
    const first = await run({ timeoutMs: 1_500, patience: { idleMs: 10_000, minBytes: 1 } });
    await expect.poll(() => source.requests.length).toBe(1);
    await new Promise((resolve) => setTimeout(resolve, 700));
    await first.stop();
    expect((await find(id)).spentMs).toBeGreaterThan(500);
    const beganMs = performance.now();
    const second = await run({ timeoutMs: 1_500, patience: { idleMs: 10_000, minBytes: 1 } });
    expect(await over(second, id)).toMatchObject({
      status: 'failed',
      failure: { code: 'source_timeout', retryable: false },
    });
    expect(performance.now() - beganMs).toBeLessThan(1_400);
  });
});

describe('fault 17: no room', () => {
  it('a fetch waits for it, and goes on where it was', async () => {
    let room = 500_000;
    const space = createStagingSpace({ folder: ingest.root, maxBytes: 0, minFreeBytes: 0 });
    const source = await startSource((request, response) =>
      sendFile(request, response, { bytes: picture, etag: '"v"' }),
    );
    const id = await add(source.url('/'));
    const tight = {
      ...space,
      get reservedBytes() {
        return space.reservedBytes;
      },
      reserve: (bytes: number, written = 0) =>
        bytes > room
          ? createStagingSpace({ folder: ingest.root, maxBytes: room, minFreeBytes: 0 }).reserve(bytes)
          : space.reserve(bytes, written),
    };
    const runner = await run({ space: tight });
    await expect
      .poll(async () => (await find(id)).failure, { timeout: 10_000 })
      .toMatchObject({
        code: 'insufficient_storage',
        retryable: true,
      });
    expect(await find(id)).toMatchObject({ status: 'queued', attempts: 1 });
    room = 1_000_000_000;
    await runner.stop();
    expect(space.reservedBytes).toBe(0);
  });
});

describe('a runner', () => {
  it('fetches no more at once than it is told, and the rest in order', async () => {
    let open = 0;
    let most = 0;
    const source = await startSource((request, response) => {
      open += 1;
      most = Math.max(most, open);
      setTimeout(() => {
        open -= 1;
        sendFile(request, response, { bytes: noisePng(request.url ?? '') });
      }, 50);
    });
    const ids = [];
    for (let n = 0; n < 6; n++) ids.push(await add(source.url(`/${n}`)));
    const runner = await run({ concurrency: 2 });
    for (const id of ids) expect(await over(runner, id)).toMatchObject({ status: 'done' });
    expect(most).toBe(2);
  });

  it('that is stopped gives back what is under way, and the next one goes on where it was', async () => {
    const source = await startSource((request, response, n) =>
      n === 1
        ? void response
            .writeHead(200, { etag: '"v"', 'content-length': picture.length })
            .write(picture.subarray(0, 400_000))
        : sendFile(request, response, { bytes: picture, etag: '"v"' }),
    );
    const id = await add(source.url('/'));
    const first = await run();
    await expect.poll(async () => (await find(id)).receivedBytes, { timeout: 10_000 }).toBe(400_000);
    await first.stop();
    expect(await find(id)).toMatchObject({ status: 'queued', attempts: 0, receivedBytes: 400_000 });
    expect(await parts()).toEqual([id]);
    expect(await over(await run(), id)).toMatchObject({ status: 'done', attempts: 1 });
    expect(source.requests).toEqual(['GET /', 'GET / bytes=400000-']);
  });

  it('takes over what another one left when it died, once its lease has shown no life', async () => {
    const source = await startSource((request, response) => sendFile(request, response, { bytes: picture }));
    const id = await add(source.url('/'));
    expect(await ingest.repositories.fetches.claim()).not.toBeNull();
    const runner = await run({ leaseMs: 3_000 });
    expect(await over(runner, id)).toMatchObject({ status: 'done', attempts: 2 });
  });

  it('trusts no more of a part than was synced, and removes parts that nobody knows', async () => {
    const source = await startSource((request, response) =>
      sendFile(request, response, { bytes: picture, etag: '"v"' }),
    );
    const id = await add(source.url('/'));
    const lease = await ingest.repositories.fetches.claim();
    if (lease === null) throw new Error('There is nothing to claim.');
    const synced = { receivedBytes: 1000, totalBytes: picture.length, validator: '"v"', spentMs: 0, fruitful: true };
    await ingest.repositories.fetches.beat(lease, synced);
    const folder = join(ingest.root, 'uploads');
    await mkdir(folder);
    // After a power loss the file may be longer than what was synced, and be anything from there.
    await writeFile(join(folder, id), Buffer.concat([picture.subarray(0, 1000), Buffer.alloc(5000)]));
    await writeFile(join(folder, 'fch_00000000000000000000000000'), 'stray');
    await writeFile(join(folder, 'upl_00000000000000000000000000'), 'not ours');
    await recoverFetches(ingest.repositories.fetches);
    const fetch = await over(await run(), id);
    expect((await mediumOf(fetch))?.sha256).toBe(sha256(picture));
    expect(source.requests).toEqual(['GET / bytes=1000-']);
    expect(await parts()).toEqual(['upl_00000000000000000000000000']);
  });

  it('does not make a second medium where it died between accepting one and saying so', async () => {
    const source = await startSource((request, response) => sendFile(request, response, { bytes: picture }));
    const id = await add(source.url('/'), { duplicate: 'allow' });
    const { fetches } = ingest.repositories;
    // All that it writes last is lost.
    const dying = { ...fetches, end: () => Promise.reject(new Error('killed')), giveBack: async () => false };
    const first = await run({ fetches: dying });
    await expect.poll(() => ingest.accepted, { timeout: 10_000 }).toHaveLength(1);
    await first.stop();
    await recoverFetches(fetches);
    const fetch = await over(await run(), id);
    expect(fetch).toMatchObject({ status: 'done', mediaId: ingest.accepted[0], mediaCreated: true });
    expect(source.requests).toHaveLength(1);
    expect(ingest.accepted).toHaveLength(1);
  });

  it('lets go at once of what is canceled, and removes what had arrived', async () => {
    const source = await startSource((_, response) => {
      response.writeHead(200, { 'content-length': picture.length }).write(picture.subarray(0, 400_000));
    });
    const id = await add(source.url('/'));
    const runner = await run();
    await expect.poll(parts, { timeout: 10_000 }).toEqual([id]);
    const closed = once(source.responses[0] ?? process, 'close');
    expect(await ingest.repositories.fetches.cancel(id)).toBe(true);
    runner.canceled(id);
    await closed;
    await expect.poll(parts).toEqual([]);
    expect(await find(id)).toMatchObject({ status: 'canceled', failure: null });
  });

  it('learns by its next beat of what was canceled elsewhere', async () => {
    const source = await startSource((_, response) => {
      response.writeHead(200, { 'content-length': picture.length }).write(picture.subarray(0, 400_000));
    });
    const id = await add(source.url('/'));
    await run();
    await expect.poll(parts, { timeout: 10_000 }).toEqual([id]);
    await ingest.repositories.fetches.cancel(id);
    await expect.poll(parts, { timeout: 10_000 }).toEqual([]);
    await ingest.expectNothingKept();
  });
});
