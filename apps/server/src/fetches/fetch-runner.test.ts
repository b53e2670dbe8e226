import { once } from 'node:events';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { noisePng } from '../../test/support/pictures.ts';
import { AppError } from '../base/app-error.ts';
import { originalKey } from '../base/object-key.ts';
import { ingestFixture, sha256 } from '../ingest/ingest.fixture.ts';
import { createStagingSpace } from '../ingest/staging-space.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import { nextAttemptInMs, RETRY_RULES } from './fetch-failure.ts';
import { runnerFixture } from './fetch-runner.fixture.ts';
import { recoverFetches } from './fetch-runner.ts';
import { sendFile, startSource } from './scripted-source.fixture.ts';

const ingest = ingestFixture();
const { add, find, log, over, parts, run } = runnerFixture(ingest);
/** About 1.4 MB: more than all buffers between source and runner. */
const picture = noisePng('fetched', 800, 600);

const mediaObjectOf = async ({ mediaId }: { mediaId: string | null }) => ingest.repositories.media.find(mediaId ?? '');
const stored = async (sha: string) => ingest.store.readAll(originalKey(sha));

/** Stalls after 400,000 bytes of the first response, and answers later requests in full. */
const startHaltingSource = () =>
  startSource((request, response, n) =>
    n === 1
      ? void response
          .writeHead(200, { etag: '"v"', 'content-length': picture.length })
          .write(picture.subarray(0, 400_000))
      : sendFile(request, response, { bytes: picture, etag: '"v"' }),
  );

describe('a fetch', () => {
  it('becomes a media object, byte for byte, and leaves nothing else behind', async () => {
    const source = await startSource((request, response) => sendFile(request, response, { bytes: picture }));
    const id = await add(source.url('/lake.png?token=secret'));
    const fetch = await over(await run(), id);
    expect(fetch).toMatchObject({ status: 'done', attempts: 1, receivedBytes: picture.length, mediaCreated: true });
    expect(fetch).toMatchObject({ totalBytes: picture.length, failure: null, sourceUrl: source.url('/lake.png') });
    expect(await mediaObjectOf(fetch)).toMatchObject({
      filename: 'a.png',
      sha256: sha256(picture),
      contentType: 'image/png',
    });
    expect((await stored(sha256(picture)))?.equals(picture)).toBe(true);
    await expect.poll(parts).toEqual([]);
    expect(log.join('')).toContain(id);
    expect(log.join('')).not.toContain('secret');
  });

  it('of known bytes returns the existing media object', async () => {
    const source = await startSource((request, response) => sendFile(request, response, { bytes: picture }));
    const runner = await run();
    const first = await over(runner, await add(source.url('/a')));
    const again = await over(runner, await add(source.url('/b')));
    expect(again).toMatchObject({ status: 'done', mediaId: first.mediaId, mediaCreated: false });
    const another = await over(runner, await add(source.url('/c'), { duplicate: 'allow' }));
    expect(another.mediaCreated).toBe(true);
    expect(another.mediaId).not.toBe(first.mediaId);
  });

  it('is given up if it keeps killing the service, and later fetches get their turn', async () => {
    const source = await startSource((request, response) => {
      if (request.url !== '/poison') sendFile(request, response, { bytes: picture });
    });
    const tried = () => source.requests.filter((line) => line === 'GET /poison').length;
    const poison = await add(source.url('/poison'));
    const behind = await add(source.url('/good'));
    for (let death = 1; death <= 10; death++) {
      const runner = await run({ concurrency: 1 });
      await expect.poll(tried).toBe(death);
      await runner.stop({ crashed: true });
      expect(await find(poison)).toMatchObject({ status: 'fetching', attempts: death });
      // This happens at every startup.
      await recoverFetches(ingest.repositories.fetches);
    }
    const runner = await run({ concurrency: 1 });
    expect(await over(runner, poison)).toMatchObject({
      status: 'failed',
      failure: { code: 'internal_error', message: expect.stringContaining('ended 10 times') },
    });
    expect(await over(runner, behind)).toMatchObject({ status: 'done' });
    expect(tried()).toBe(10);
  });

  it('of a file that is no media object fails at once, and nothing is stored', async () => {
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

  it('of an empty file fails with empty_file', async () => {
    const source = await startSource((_, response) => response.end());
    expect(await over(await run(), await add(source.url('/')))).toMatchObject({ failure: { code: 'empty_file' } });
  });
});

describe('fault 17: no room for a fetch', () => {
  it('the fetch waits for room, reports why, and reserves nothing meanwhile', async () => {
    const space = createStagingSpace({ folder: ingest.root, maxBytes: 500_000, minFreeBytes: 0 });
    const source = await startSource((request, response) => sendFile(request, response, { bytes: picture }));
    const id = await add(source.url('/'));
    await run({ space });
    await expect
      .poll(async () => (await find(id)).failure, { timeout: 10_000 })
      .toMatchObject({
        code: 'insufficient_storage',
        retryable: true,
      });
    expect(await find(id)).toMatchObject({ status: 'queued', attempts: 1 });
    expect(await ingest.repositories.fetches.claim()).toBeNull();
    expect(space.reservedBytes).toBe(0);
  });
});

describe('a fetch during an outage of the storage', () => {
  it('is retried without end, and failures of its source count from zero', async () => {
    let isAway = true;
    const store: ObjectStore = {
      ...ingest.store,
      async put(key, file) {
        if (isAway) throw new AppError('unavailable', 'The object storage does not answer as it should.');
        await ingest.store.put(key, file);
      },
    };
    const source = await startSource((request, response) => sendFile(request, response, { bytes: picture }));
    const id = await add(source.url('/'));
    const retryRules = { ...RETRY_RULES, firstDelayMs: 10, serviceDelaysMs: { unavailable: 10 } };
    const runner = await run({ ingest: ingest.makeIngest({ store }), retryRules, intervalMs: 20 });
    await expect.poll(async () => (await find(id)).attempts).toBeGreaterThan(RETRY_RULES.maxWithoutProgress + 2);
    expect(await find(id)).toMatchObject({ failure: { code: 'unavailable', retryable: true } });
    isAway = false;
    expect(await over(runner, id)).toMatchObject({ status: 'done', failure: null });
    expect((await find(id)).fruitlessAttempts).toBeLessThan(2);
  });

  it('is retried every half minute, because each retry may read the whole file again', () => {
    const away = new AppError('unavailable', 'The object storage does not answer as it should.');
    const delayMs = nextAttemptInMs(away, { attempts: 1_000, fruitlessAttempts: 3 }, RETRY_RULES);
    expect(delayMs).toBeGreaterThanOrEqual(30_000);
    expect(delayMs).toBeLessThan(40_000);
  });
});

describe('a fetch runner', () => {
  it('runs no more fetches at once than configured, and the rest in order', async () => {
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

  it('returns its fetches to the queue when it stops; the next runner resumes them', async () => {
    const source = await startHaltingSource();
    const id = await add(source.url('/'));
    const first = await run();
    await expect.poll(async () => (await find(id)).receivedBytes, { timeout: 10_000 }).toBe(400_000);
    await first.stop();
    expect(await find(id)).toMatchObject({ status: 'queued', attempts: 0, receivedBytes: 400_000 });
    expect(await parts()).toEqual([id]);
    expect(await over(await run(), id)).toMatchObject({ status: 'done', attempts: 1 });
    expect(source.requests).toEqual(['GET /', 'GET / bytes=400000-']);
  });

  it('with a folder of its own resumes its own part only, never another file', async () => {
    const other = noisePng('another', 800, 600);
    const [folderA, folderB] = [join(ingest.root, 'a'), join(ingest.root, 'b')];
    const source = await startSource((request, response, n) => {
      if (n === 1) {
        response.writeHead(200, { etag: '"v1"', 'content-length': picture.length }).write(picture.subarray(0, 400_000));
      } else if (n === 2) {
        response.writeHead(200, { etag: '"v2"', 'content-length': other.length }).write(other.subarray(0, 600_000));
      } else sendFile(request, response, { bytes: other, etag: '"v2"' });
    });
    const id = await add(source.url('/'));
    for (const [uploadsDir, bytes] of [[folderA, 400_000] as const, [folderB, 600_000] as const]) {
      await mkdir(uploadsDir);
      const runner = await run({ shared: true, uploadsDir });
      await expect.poll(async () => (await find(id)).receivedBytes, { timeout: 10_000 }).toBe(bytes);
      await runner.stop();
    }
    const done = await over(await run({ shared: true, uploadsDir: folderA }), id);
    expect((await ingest.repositories.media.find(done.mediaId ?? ''))?.sha256).toBe(sha256(other));
    expect(source.requests).toEqual(['GET /', 'GET /', 'GET /']);
    expect(await readdir(folderA)).toEqual([]);
  });

  it('that shares the queue resumes its own part after a stop', async () => {
    const uploadsDir = join(ingest.root, 'a');
    await mkdir(uploadsDir);
    const source = await startHaltingSource();
    const id = await add(source.url('/'));
    const first = await run({ shared: true, uploadsDir });
    await expect.poll(async () => (await find(id)).receivedBytes, { timeout: 10_000 }).toBe(400_000);
    await first.stop();
    expect(await over(await run({ shared: true, uploadsDir }), id)).toMatchObject({ status: 'done' });
    expect(source.requests).toEqual(['GET /', 'GET / bytes=400000-']);
    expect(await readdir(uploadsDir)).toEqual([]);
  });

  it.each([
    { where: 'the same', back: 'a', asked: ['GET /', 'GET / bytes=400000-'] },
    { where: 'another', back: 'b', asked: ['GET /', 'GET /'] },
  ])('that dies leaves its fetch to $where node, which uses only the bytes it has', async ({ back, asked }) => {
    for (const name of ['a', 'b']) await mkdir(join(ingest.root, name));
    const source = await startHaltingSource();
    const id = await add(source.url('/'));
    const first = await run({ shared: true, uploadsDir: join(ingest.root, 'a') });
    await expect.poll(async () => (await find(id)).receivedBytes, { timeout: 10_000 }).toBe(400_000);
    await first.stop({ crashed: true });
    const uploadsDir = join(ingest.root, back);
    const done = await over(await run({ shared: true, uploadsDir, leaseMs: 3_000 }), id);
    expect((await ingest.repositories.media.find(done.mediaId ?? ''))?.sha256).toBe(sha256(picture));
    expect(source.requests).toEqual(asked);
    expect(await readdir(uploadsDir)).toEqual([]);
  });

  it('does not resume its part after another runner worked on the fetch and died', async () => {
    const other = noisePng('another', 800, 600);
    const [folderA, folderB] = [join(ingest.root, 'a'), join(ingest.root, 'b')];
    const source = await startSource((request, response, n) => {
      if (n === 3) return sendFile(request, response, { bytes: other, etag: '"v2"' });
      const [bytes, etag, count] = n === 1 ? [picture, '"v1"', 600_000] : [other, '"v2"', 400_000];
      response.writeHead(200, { etag, 'content-length': bytes.length }).write(bytes.subarray(0, count));
    });
    const id = await add(source.url('/'));
    for (const [uploadsDir, bytes] of [[folderA, 600_000] as const, [folderB, 400_000] as const]) {
      await mkdir(uploadsDir);
      const runner = await run({ shared: true, uploadsDir, leaseMs: 3_000 });
      await expect.poll(async () => (await find(id)).receivedBytes, { timeout: 10_000 }).toBe(bytes);
      await runner.stop({ crashed: true });
    }
    const done = await over(await run({ shared: true, uploadsDir: folderA, leaseMs: 3_000 }), id);
    expect((await ingest.repositories.media.find(done.mediaId ?? ''))?.sha256).toBe(sha256(other));
    expect(source.requests).toEqual(['GET /', 'GET /', 'GET /']);
  });

  it('ends all waiting requests when it stops', async () => {
    const source = await startSource(() => undefined);
    const id = await add(source.url('/'));
    const runner = await run();
    await expect.poll(() => source.requests, { timeout: 10_000 }).toHaveLength(1);
    const settled = runner.settled(id, { timeoutMs: 600_000, signal: new AbortController().signal });
    await runner.stop();
    expect(await settled).toBeNull();
  });

  it('takes over the fetch of a dead runner after its lease shows no life', async () => {
    const source = await startSource((request, response) => sendFile(request, response, { bytes: picture }));
    const id = await add(source.url('/'));
    expect(await ingest.repositories.fetches.claim()).not.toBeNull();
    const runner = await run({ leaseMs: 3_000 });
    expect(await over(runner, id)).toMatchObject({ status: 'done', attempts: 2 });
  });

  it('takes over that fetch even if each observer of the lease ends too early', async () => {
    const source = await startSource((request, response) => sendFile(request, response, { bytes: picture }));
    const id = await add(source.url('/'));
    expect(await ingest.repositories.fetches.claim()).not.toBeNull();
    // Each runner lives for half a lease. A busy machine may count less of that as observation, hence the spare lives.
    for (let life = 1; life <= 20 && (await find(id)).status === 'fetching'; life++) {
      const runner = await run({ leaseMs: 2_000, intervalMs: 50 });
      await new Promise((resolve) => setTimeout(resolve, 1_000));
      await runner.stop();
    }
    expect((await find(id)).status).not.toBe('fetching');
    expect(await over(await run(), id)).toMatchObject({ status: 'done' });
  });

  it('trusts only the synced bytes of a part, and removes unknown parts', async () => {
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
    // After a power loss the file may be longer than its synced part, with any content from there.
    await writeFile(join(folder, id), Buffer.concat([picture.subarray(0, 1000), Buffer.alloc(5000)]));
    await writeFile(join(folder, 'fch_00000000000000000000000000'), 'stray');
    await writeFile(join(folder, 'upl_00000000000000000000000000'), 'not ours');
    await recoverFetches(ingest.repositories.fetches);
    const fetch = await over(await run(), id);
    expect((await mediaObjectOf(fetch))?.sha256).toBe(sha256(picture));
    expect(source.requests).toEqual(['GET / bytes=1000-']);
    expect(await parts()).toEqual(['upl_00000000000000000000000000']);
  });

  it('makes no second media object if it died between accepting one and recording it', async () => {
    const source = await startSource((request, response) => sendFile(request, response, { bytes: picture }));
    const id = await add(source.url('/'), { duplicate: 'allow' });
    const { fetches } = ingest.repositories;
    // Its last writes are all lost.
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

  it('stops a canceled fetch at once and removes its bytes', async () => {
    const source = await startSource((_, response) => {
      response.writeHead(200, { 'content-length': picture.length }).write(picture.subarray(0, 400_000));
    });
    const id = await add(source.url('/'));
    const runner = await run();
    await expect.poll(async () => (await find(id)).receivedBytes, { timeout: 10_000 }).toBe(400_000);
    expect(await parts()).toEqual([id]);
    const [response] = source.responses;
    if (!response) throw new Error('Nothing was asked for.');
    const closed = once(response, 'close');
    expect(await ingest.repositories.fetches.cancel(id)).toBe(true);
    runner.canceled(id);
    await closed;
    await expect.poll(parts).toEqual([]);
    expect(await find(id)).toMatchObject({ status: 'canceled', failure: null });
  });

  it('stops a fetch that was canceled on another node at its next heartbeat', async () => {
    const source = await startSource((_, response) => {
      response.writeHead(200, { 'content-length': picture.length }).write(picture.subarray(0, 400_000));
    });
    const id = await add(source.url('/'));
    // Nothing else would end the fetch in that time.
    await run({ idleLimit: { idleMs: 60_000, minBytes: 1 } });
    await expect.poll(parts, { timeout: 10_000 }).toEqual([id]);
    await ingest.repositories.fetches.cancel(id);
    await expect.poll(parts, { timeout: 10_000 }).toEqual([]);
    await ingest.expectNothingKept();
  });
});
