import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { noisePng } from '../../test/support/pictures.ts';
import { smallVolume } from '../../test/support/small-volume.ts';
import { ingestFixture, input } from './ingest.fixture.ts';
import { createStagingSpace } from './staging-space.ts';

const fixture = ingestFixture();
const { makeIngest, expectNothingKept } = fixture;

describe('uploads that do not arrive whole', () => {
  /** A real HTTP request whose body the ingest reads, as in the service. */
  const overHttp = async (send: (port: number, arrived: Promise<unknown>) => Promise<unknown> | undefined) => {
    const { promise, resolve } = withResolvers<unknown>();
    const server = createServer((req, res) => {
      const length = req.headers['content-length'];
      const declaredBytes = length === undefined ? null : Number(length);
      makeIngest()
        .ingest(input(req, { declaredBytes }))
        .then(resolve, resolve)
        .finally(() => res.destroyed || res.end('answered'));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const sent = send((server.address() as AddressInfo).port, once(server, 'request'));
    const outcome = await promise;
    await sent;
    server.closeAllConnections();
    server.close();
    return outcome;
  };

  it.each([
    ['with a length', { 'content-length': '100000' }, 50],
    ['in chunks', {}, 50],
    ['at once', {}, 0],
  ])('nothing of a client that dies half-way is stored: %s', async (_, headers, ms) => {
    const outcome = await overHttp((port, arrived) => {
      const sending = request({ port, host: '127.0.0.1', method: 'POST', headers });
      sending.on('error', () => undefined);
      sending.write(noisePng('a', 100, 100).subarray(0, 20_000));
      void arrived.then(() => setTimeout(() => sending.destroy(), ms));
      return undefined;
    });
    expect(outcome).toMatchObject({ code: 'incomplete_body', status: 400 });
    await expectNothingKept();
  });

  it('a client whose body is too large still receives the response', async () => {
    const answered = withResolvers<string>();
    const outcome = await overHttp((port) => {
      const sending = request({ port, host: '127.0.0.1', method: 'POST' }, (res) => {
        res.setEncoding('utf8').once('data', answered.resolve);
      });
      sending.on('error', (error) => answered.resolve(error.message));
      sending.write(Buffer.alloc(2_500_000));
      return answered.promise;
    });
    expect(outcome).toMatchObject({ code: 'payload_too_large', status: 413 });
    expect(await answered.promise).toBe('answered');
    await expectNothingKept();
  });

  it('a declared length over the limit is refused before a byte is read', async () => {
    const body = Readable.from([Buffer.alloc(10)]);
    const outcome = makeIngest().ingest(input(body, { declaredBytes: 2_000_001 }));
    await expect(outcome).rejects.toMatchObject({ code: 'payload_too_large' });
    expect(body.readableDidRead).toBe(false);
    await expectNothingKept();
  });

  it('a file of exactly the largest size is accepted', async () => {
    const picture = noisePng('a');
    const exact = makeIngest({ maxUploadBytes: picture.length });
    expect((await exact.ingest(input(picture, { declaredBytes: picture.length }))).created).toBe(true);
    const short = makeIngest({ maxUploadBytes: picture.length - 1 });
    await expect(short.ingest(input(picture))).rejects.toMatchObject({ code: 'payload_too_large' });
  });

  it('fault 10: a source that lies about its length, either way, is refused', async () => {
    const picture = noisePng('a');
    for (const declaredBytes of [picture.length - 1, picture.length + 1, 0]) {
      const outcome = makeIngest().ingest(input(picture, { declaredBytes }));
      await expect(outcome, String(declaredBytes)).rejects.toMatchObject({ code: 'incomplete_body' });
    }
    await expectNothingKept();
  });

  it('fault 10: an endless source stops at the size limit, a slow one by its signal', async () => {
    const endless = Readable.from(
      (function* () {
        for (;;) yield Buffer.alloc(65_536);
      })(),
    );
    const ingest = makeIngest();
    await expect(ingest.ingest(input(endless))).rejects.toMatchObject({ code: 'payload_too_large' });
    expect(endless.destroyed, 'how to end it is for whoever has the connection').toBe(false);
    endless.destroy(new Error('It breaks later, when nobody listens.'));

    const trickling = new Readable({ read: () => undefined });
    trickling.push(Buffer.alloc(10));
    const outcome = ingest.ingest(input(trickling, { signal: AbortSignal.timeout(50) }));
    await expect(outcome).rejects.toMatchObject({ code: 'incomplete_body' });
    expect(trickling.destroyed).toBe(true);
    expect(ingest.stats).toMatchObject({ receiving: 0, refused: { payload_too_large: 1, incomplete_body: 1 } });
    await expectNothingKept();
  });

  it('a body that broke off before it was read is not taken for an empty file', async () => {
    const gone = new Readable({ read: () => undefined });
    gone.destroy();
    await expect(makeIngest().ingest(input(gone))).rejects.toMatchObject({ code: 'incomplete_body' });
    const stopped = input(Readable.from([noisePng('a')]), { signal: AbortSignal.abort() });
    await expect(makeIngest().ingest(stopped)).rejects.toMatchObject({ code: 'incomplete_body' });
    await expectNothingKept();
  });
});

describe('fault 17: no room for a request', () => {
  const volume = smallVolume({ mebibytes: 1 });

  it.skipIf(!volume.available)(
    'a full disk gives 507, staging is empty, and smaller uploads still succeed',
    async () => {
      await volume.use(async (stagingDir) => {
        const space = createStagingSpace({ folder: stagingDir, maxBytes: 0, minFreeBytes: 0 });
        const ingest = makeIngest({ stagingDir, space });
        const large = noisePng('large', 800, 700);
        expect(large.length).toBeGreaterThan(1_100_000);
        const refused = { code: 'insufficient_storage', status: 507 };
        await expect(ingest.ingest(input(large))).rejects.toMatchObject(refused);
        await expect(ingest.ingest(input(large, { declaredBytes: large.length }))).rejects.toMatchObject(refused);
        expect(await readdir(stagingDir)).toEqual([]);
        await expectNothingKept();
        expect((await ingest.ingest(input(noisePng('small')))).created).toBe(true);
      });
    },
  );

  it('a volume below its free-space floor gives 507 before a byte is read', async () => {
    const body = Readable.from([noisePng('a')]);
    const space = createStagingSpace({ folder: fixture.root, maxBytes: 0, minFreeBytes: Number.MAX_SAFE_INTEGER });
    const outcome = makeIngest({ space }).ingest(input(body));
    await expect(outcome).rejects.toMatchObject({ code: 'insufficient_storage', status: 507 });
    expect(body.readableDidRead).toBe(false);
  });
});

/** `Promise.withResolvers`, which Node 20 lacks. */
function withResolvers<T>() {
  let resolve: (value: T) => void = () => undefined;
  const promise = new Promise<T>((yes) => {
    resolve = yes;
  });
  return { promise, resolve };
}
