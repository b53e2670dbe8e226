import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, extname, join } from 'node:path';
import { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { createEngine, formats } from '@mds/transcode';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { noisePng } from '../../test/pictures.ts';
import { smallVolume } from '../../test/small-volume.ts';
import type { Repositories } from '../db/repositories.ts';
import { openSqliteRepositories } from '../db/sqlite/open-repositories.ts';
import { createLogger } from '../logger.ts';
import { createLocalObjectStore } from '../storage/local-object-store.ts';
import { type ObjectStore, originalKey } from '../storage/object-store.ts';
import { createIngest, type IngestInput, type IngestParts } from './ingest.ts';
import { createKeyedLock } from './keyed-lock.ts';
import { createMediaRemoval } from './media-removal.ts';

const engine = createEngine();
afterAll(() => engine.stop());
const logger = createLogger('silent');

let root: string;
let repositories: Repositories;
let store: ObjectStore;
let accepted: string[];
let lock: ReturnType<typeof createKeyedLock>;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'mds-ingest-'));
  await mkdir(join(root, 'staging'));
  repositories = openSqliteRepositories(':memory:');
  store = createLocalObjectStore({ root: join(root, 'objects') });
  accepted = [];
  lock = createKeyedLock();
});
afterEach(async () => {
  await repositories.close();
  await rm(root, { recursive: true });
});

const makeIngest = (overrides: Partial<IngestParts> = {}) =>
  createIngest({
    media: repositories.media,
    store,
    engine,
    lock,
    stagingDir: join(root, 'staging'),
    maxUploadBytes: 2_000_000,
    minFreeBytes: 0,
    logger,
    onAccepted: ({ id }) => accepted.push(id),
    ...overrides,
  });
const input = (body: Buffer | Readable, overrides: Partial<IngestInput> = {}): IngestInput => ({
  projectId: 'default',
  body: Buffer.isBuffer(body) ? Readable.from([body]) : body,
  filename: 'picture.png',
  idempotencyKey: null,
  duplicate: 'existing',
  declaredBytes: null,
  ...overrides,
});
const removal = (onRemoved: (id: string) => void = () => undefined) =>
  createMediaRemoval({ media: repositories.media, store, lock, onRemoved, logger });

const objects = async () => {
  const keys: string[] = [];
  for await (const { key } of store.list('')) keys.push(key);
  return keys;
};
const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');
const expectNothingKept = async () => {
  expect(await readdir(join(root, 'staging')), 'staging').toEqual([]);
  expect(await objects(), 'objects').toEqual([]);
  expect(await repositories.media.page({ projectId: 'default', limit: 10, before: null }), 'media').toEqual([]);
  expect(await repositories.jobs.counts(), 'jobs').toMatchObject({ queued: 0 });
};

describe('ingest', () => {
  it('invariant 1: what it returns is stored byte for byte, in the database and in the queue', async () => {
    const picture = noisePng('a', 80, 60);
    const before = Date.now();
    const { media, created } = await makeIngest().ingest(input(picture, { declaredBytes: picture.length }));
    expect(created).toBe(true);
    expect(media).toMatchObject({
      contentType: 'image/png',
      bytes: picture.length,
      width: 80,
      height: 60,
      status: 'queued',
      filename: 'picture.png',
      sha256: sha256(picture),
      kind: 'image',
      format: 'png',
      codecs: ['png'],
      durationMs: null,
    });
    expect(media.id).toMatch(/^med_[0-9a-z]{26}$/);
    expect(media.createdAtMs).toBeGreaterThanOrEqual(before);
    expect((await store.readAll(originalKey(media.sha256)))?.equals(picture)).toBe(true);
    expect(await repositories.media.find(media.id)).toEqual(media);
    expect(await repositories.jobs.counts()).toMatchObject({ queued: 1 });
    expect(accepted).toEqual([media.id]);
    expect(await readdir(join(root, 'staging'))).toEqual([]);
  });

  it('ids sort by arrival, however many come within a millisecond', async () => {
    const ingest = makeIngest();
    const ids: string[] = [];
    for (let n = 0; n < 5; n++) ids.push((await ingest.ingest(input(noisePng(n)))).media.id);
    expect([...ids].sort()).toEqual(ids);
  });

  it('the same file twice is one medium, and the second time nothing is decoded', async () => {
    const picture = noisePng('a');
    const ingest = makeIngest();
    const first = await ingest.ingest(input(picture));
    const tasks = engine.stats.identify.tasks;
    const again = await ingest.ingest(input(picture, { filename: 'other.png' }));
    expect(again).toMatchObject({ created: false, media: { id: first.media.id, filename: 'picture.png' } });
    expect(engine.stats.identify.tasks).toBe(tasks);
    expect(accepted).toEqual([first.media.id]);
    expect(ingest.stats).toMatchObject({ created: 1, existing: 1, receiving: 0, receivedBytes: 2 * picture.length });
  });

  it('the same file as another medium, where the caller wants that, shares its object', async () => {
    const picture = noisePng('a');
    const first = await makeIngest().ingest(input(picture));
    const second = await makeIngest().ingest(input(picture, { duplicate: 'allow' }));
    expect(second).toMatchObject({ created: true });
    expect(second.media.id).not.toBe(first.media.id);
    expect(await objects()).toEqual([originalKey(sha256(picture))]);
  });

  it('many uploads of the same file at once are one medium, decoded once', async () => {
    const picture = noisePng('a');
    const tasks = engine.stats.identify.tasks;
    const ingest = makeIngest();
    const outcomes = await Promise.all(Array.from({ length: 8 }, () => ingest.ingest(input(picture))));
    expect(new Set(outcomes.map(({ media }) => media.id)).size).toBe(1);
    expect(outcomes.filter(({ created }) => created)).toHaveLength(1);
    expect(engine.stats.identify.tasks - tasks).toBe(1);
    expect((await store.readAll(originalKey(sha256(picture))))?.equals(picture)).toBe(true);
  });

  it('a request repeated with its Idempotency-Key answers with its medium; another file under that key is refused', async () => {
    const ingest = makeIngest();
    const keyed = { idempotencyKey: 'upload-1', duplicate: 'allow' } as const;
    const first = await ingest.ingest(input(noisePng('a'), keyed));
    expect(await ingest.ingest(input(noisePng('a'), keyed))).toMatchObject({ created: false, media: first.media });
    const other = noisePng('b');
    await expect(ingest.ingest(input(other, keyed))).rejects.toMatchObject({
      code: 'idempotency_conflict',
      status: 409,
      message: expect.stringContaining(first.media.id),
    });
    expect(await objects()).toEqual([originalKey(first.media.sha256)]);
  });

  it('two different files at once under one Idempotency-Key: one wins, and nothing is left of the other', async () => {
    const ingest = makeIngest();
    const outcomes = await Promise.allSettled(
      ['a', 'b'].map((seed) => ingest.ingest(input(noisePng(seed), { idempotencyKey: 'upload-1' }))),
    );
    expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    const lost = outcomes.find((outcome) => outcome.status === 'rejected');
    expect(lost?.reason).toMatchObject({ code: 'idempotency_conflict' });
    expect(await objects()).toHaveLength(1);
    expect(await readdir(join(root, 'staging'))).toEqual([]);
  });

  it('a database that fails after the bytes were stored leaves no orphan, and what others need stays', async () => {
    const full = Object.assign(new Error('database or disk is full'), { code: 'SQLITE_FULL' });
    const failing = makeIngest({ media: { ...repositories.media, accept: () => Promise.reject(full) } });
    await expect(failing.ingest(input(noisePng('a')))).rejects.toMatchObject({ code: 'insufficient_storage' });
    await expectNothingKept();
    const kept = await makeIngest().ingest(input(noisePng('a')));
    await expect(failing.ingest(input(noisePng('a'), { duplicate: 'allow' }))).rejects.toMatchObject({ status: 507 });
    expect(await objects()).toEqual([originalKey(kept.media.sha256)]);
  });
});

describe('removal', () => {
  it('takes the medium out of every cache before its objects go, and leaves nothing', async () => {
    const { media } = await makeIngest().ingest(input(noisePng('a')));
    const seen: unknown[] = [];
    const remover = removal((id) => {
      seen.push(id);
      void objects().then((keys) => seen.push(keys.length));
    });
    expect(await remover.remove(media.id)).toBe(true);
    expect(seen[0]).toBe(media.id);
    expect(await remover.remove(media.id)).toBe(false);
    await expectNothingKept();
  });

  it('of one of two media with the same bytes keeps the bytes of the other', async () => {
    const first = await makeIngest().ingest(input(noisePng('a')));
    const second = await makeIngest().ingest(input(noisePng('a'), { duplicate: 'allow' }));
    await removal().remove(first.media.id);
    expect(await objects()).toEqual([originalKey(second.media.sha256)]);
    await removal().remove(second.media.id);
    await expectNothingKept();
  });

  it('spares an object that a medium of the same bytes came to need while the row was deleted', async () => {
    const picture = noisePng('a');
    const { media } = await makeIngest().ingest(input(picture));
    const key = 'renditions/aa/shared.webp';
    const row = {
      name: 'thumb',
      extension: 'webp',
      contentType: 'image/webp',
      revision: '0000000a',
      current: true,
      state: 'pending' as const,
      reason: null,
      objectKey: key,
      sha256: null,
      bytes: null,
      files: null,
      width: null,
      height: null,
    };
    const begin = async () => {
      const lease = await repositories.jobs.claim('worker');
      if (lease) await repositories.media.start(lease, [row]);
    };
    await begin();
    await writeFile(join(root, 'rendition'), 'rendition');
    await store.put(key, { path: join(root, 'rendition'), bytes: 9, sha256: '' });
    // Another process accepts the same bytes and begins with them, just after the row of the first is gone.
    const meanwhile = async (id: string) => {
      const deleted = await repositories.media.delete(id);
      await repositories.media.accept(
        { ...media, id: `${media.id.slice(0, -1)}0` },
        { duplicate: 'allow', idempotencyKey: null },
      );
      await begin();
      return deleted;
    };
    const remover = createMediaRemoval({
      media: { ...repositories.media, delete: meanwhile },
      store,
      lock,
      onRemoved: () => undefined,
      logger,
    });
    expect(await remover.remove(media.id)).toBe(true);
    expect(await store.stat(key)).toEqual({ bytes: 9 });
    expect(await store.stat(originalKey(media.sha256))).toEqual({ bytes: picture.length });
  });

  it('at the very moment of an upload of the same bytes never takes them from under the new medium', async () => {
    const picture = noisePng('a');
    const key = originalKey(sha256(picture));
    // Slower than the other, in turn: each order of events gets its chance.
    const slow = (ms: number): ObjectStore => ({
      ...store,
      delete: async (which) => {
        await new Promise((resolve) => setTimeout(resolve, ms));
        await store.delete(which);
      },
    });
    const ingest = makeIngest();
    for (const ms of [0, 5, 30, 60]) {
      const { media } = await ingest.ingest(input(picture));
      const remover = createMediaRemoval({
        media: repositories.media,
        store: slow(ms),
        lock,
        onRemoved: () => undefined,
        logger,
      });
      const [again] = await Promise.all([ingest.ingest(input(picture)), remover.remove(media.id)]);
      const survivor = await repositories.media.find(again.media.id);
      expect(await store.stat(key), `delay ${ms}`).toEqual(survivor ? { bytes: picture.length } : null);
      if (survivor) await removal().remove(survivor.id);
    }
  });
});

describe('what does not arrive whole', () => {
  /** A real HTTP request whose body the ingest reads, as the service has it. */
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
  ])('a client that dies half-way, %s: nothing is kept', async (_, headers, ms) => {
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

  it('a body that is refused for its size leaves the connection able to carry the answer', async () => {
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

  it('too large by its own word: refused before a byte is read', async () => {
    const body = Readable.from([Buffer.alloc(10)]);
    const outcome = makeIngest().ingest(input(body, { declaredBytes: 2_000_001 }));
    await expect(outcome).rejects.toMatchObject({ code: 'payload_too_large' });
    expect(body.readableDidRead).toBe(false);
    await expectNothingKept();
  });

  it('exactly the largest size is accepted', async () => {
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

  it('fault 10: a source that never ends is stopped at the size limit, one that trickles by its signal', async () => {
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

  it('a body that was broken off before we looked is not taken for an empty file', async () => {
    const gone = new Readable({ read: () => undefined });
    gone.destroy();
    await expect(makeIngest().ingest(input(gone))).rejects.toMatchObject({ code: 'incomplete_body' });
    const stopped = input(Readable.from([noisePng('a')]), { signal: AbortSignal.abort() });
    await expect(makeIngest().ingest(stopped)).rejects.toMatchObject({ code: 'incomplete_body' });
    await expectNothingKept();
  });
});

describe('fault 17: no room', () => {
  const volume = smallVolume({ mebibytes: 1 });

  it.skipIf(!volume.available)(
    'on a disk that runs full: 507, staging is empty, and uploads that fit go on',
    async () => {
      await volume.use(async (stagingDir) => {
        const ingest = makeIngest({ stagingDir });
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

  it('that the operator wants kept free: 507 before a byte is read', async () => {
    const body = Readable.from([noisePng('a')]);
    const outcome = makeIngest({ minFreeBytes: Number.MAX_SAFE_INTEGER }).ingest(input(body));
    await expect(outcome).rejects.toMatchObject({ code: 'insufficient_storage', status: 507 });
    expect(body.readableDidRead).toBe(false);
  });
});

describe('fault 18: an original that was lost or damaged', () => {
  it('is put back by an upload of the same bytes, and a medium that failed for it is tried again', async () => {
    const picture = noisePng('a');
    const ingest = makeIngest();
    const { media } = await ingest.ingest(input(picture));
    const key = originalKey(media.sha256);

    await store.delete(key);
    expect(await ingest.ingest(input(picture))).toMatchObject({ created: false, media: { id: media.id } });
    expect((await store.readAll(key))?.equals(picture)).toBe(true);

    const lease = await repositories.jobs.claim('worker');
    if (!lease) throw new Error('There is nothing to claim.');
    await repositories.media.fail(lease, { code: 'object_corrupt', message: 'Damaged.', retryable: false });
    const local = await store.localFile(key);
    await writeFile(local?.path ?? '', Buffer.alloc(picture.length));
    const mended = await ingest.ingest(input(picture));
    expect(mended).toMatchObject({ created: false, media: { id: media.id, status: 'queued' } });
    expect((await readFile(local?.path ?? '')).equals(picture)).toBe(true);
    expect(accepted).toEqual([media.id, media.id]);
  });
});

describe('fault 21: names', () => {
  it.each([
    ['../../etc/passwd', 'passwd'],
    ['..\\..\\windows\\system32\\con', 'con'],
    ['/', null],
    ['..', null],
    ['con', 'con'],
    ['a\0b.png', 'ab.png'],
    ['\u202egnp.exe', 'gnp.exe'],
    ['new\r\nline.png', 'newline.png'],
    ['   ', null],
    ['Ærøskøbing ☃ 写真.png', 'Ærøskøbing ☃ 写真.png'],
    ['%2e%2e%2fpasswd', '%2e%2e%2fpasswd'],

    ['\ud800half.png', 'half.png'],
  ])('%j is a label at most, never a part of a path', async (filename, label) => {
    const picture = noisePng(filename);
    const { media } = await makeIngest().ingest(input(picture, { filename }));
    expect(media.filename).toBe(label);
    expect(await objects()).toEqual([originalKey(sha256(picture))]);
    expect((await readdir(root)).sort()).toEqual(['objects', 'staging']);
  });

  it('4 KB of emoji are cut between characters, so that the label can be shown', async () => {
    const { media } = await makeIngest().ingest(input(noisePng('a'), { filename: '\u{1f600}'.repeat(1024) }));
    expect(media.filename).toBe('\u{1f600}'.repeat(255));
  });
});

describe('fault 22: files that are not what they should be', () => {
  const samples = fileURLToPath(new URL('../../../../packages/transcode/samples', import.meta.url));

  it('an empty file is refused as such', async () => {
    await expect(makeIngest().ingest(input(Buffer.alloc(0)))).rejects.toMatchObject({
      code: 'empty_file',
      status: 422,
    });
    const declared = makeIngest().ingest(input(Buffer.alloc(0), { declaredBytes: 0 }));
    await expect(declared).rejects.toMatchObject({ code: 'empty_file' });
    await expectNothingKept();
  });

  it.each([
    ['text', Buffer.from('Just a letter, not a picture.'.repeat(50))],
    ['an archive', Buffer.from('504b0304140000000800', 'hex')],
    ['noise', createHash('sha512').update('noise').digest()],
    ['a page with a PNG in it', Buffer.concat([Buffer.from('<html><body>'), noisePng('a')])],
    ['a single byte', Buffer.from([0xff])],
  ])('%s is refused with a sentence, and nothing is kept', async (_, bytes) => {
    await expect(makeIngest().ingest(input(bytes))).rejects.toMatchObject({
      status: 422,
      message: expect.stringMatching(/^[A-Z].{20,}\.$/),
    });
    await expectNothingKept();
  });

  it('a sample of every accepted format, cut off or overwritten, is accepted or refused with a reason: never a crash, never kept by half', async () => {
    const ids = formats.map(({ id }) => id);
    const names = (await readdir(samples)).filter((name) => ids.includes(basename(name, extname(name))));
    expect(names).toHaveLength(formats.length);
    const ingest = makeIngest();
    for (const name of names) {
      const whole = await readFile(join(samples, name));
      expect((await ingest.ingest(input(whole))).created, name).toBe(true);
      const broken = {
        'cut after its start': whole.subarray(0, 24),
        'cut in the middle': whole.subarray(0, Math.floor(whole.length / 2)),
        'overwritten in the middle': Buffer.from(whole).fill(
          0xa5,
          Math.floor(whole.length / 3),
          Math.floor(whole.length / 2),
        ),
      };
      for (const [how, bytes] of Object.entries(broken)) {
        const outcome = await ingest.ingest(input(bytes)).catch((error: unknown) => error);
        if (outcome instanceof Error)
          expect(outcome, `${name} ${how}`).toMatchObject({ name: 'AppError', status: 422 });
        else expect(outcome, `${name} ${how}`).toMatchObject({ created: true });
      }
    }
    expect(await readdir(join(root, 'staging'))).toEqual([]);
  }, 120_000);
});

/** `Promise.withResolvers`, which Node 20 does not have. */
function withResolvers<T>() {
  let resolve: (value: T) => void = () => undefined;
  const promise = new Promise<T>((yes) => {
    resolve = yes;
  });
  return { promise, resolve };
}
