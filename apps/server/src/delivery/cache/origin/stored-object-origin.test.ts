import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { createLocalObjectStore } from '../../../storage/local-object-store.ts';
import type { ObjectStore } from '../../../storage/object-store.ts';
import { sha256Of, someBytes, useS3Server, withoutS3Server } from '../../../storage/s3.fixture.ts';
import { startDelivery } from '../../delivery.fixture.ts';
import { createStoredObjectOrigin } from './stored-object-origin.ts';

const MIB = 1024 * 1024;

describe('an object store as an origin', () => {
  let folder: string;
  let store: ObjectStore;
  const content = someBytes(3 * MIB);
  const object = { key: 'a/object', sha256: sha256Of(content), bytes: content.length, pieces: null };
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'mds-origin-'));
    store = createLocalObjectStore({ root: join(folder, 'objects') });
    await writeFile(join(folder, 'staged'), content);
    await store.put(object.key, { ...object, path: join(folder, 'staged') });
  });
  afterEach(() => rm(folder, { recursive: true }));
  const never = new AbortController().signal;

  it('returns ranges of an object, and null if the object is missing', async () => {
    const origin = createStoredObjectOrigin({ store });
    expect(await origin.localFile(object)).toBeNull();
    const read = await origin.read(object, { start: 5, end: 2 * MIB }, never);
    expect(read && (await buffer(read)).equals(content.subarray(5, 2 * MIB + 1))).toBe(true);
    expect(await origin.read({ ...object, key: 'none/such' }, { start: 0, end: 1 }, never)).toBeNull();
  });

  it('reports an object that is too short as damaged, not as an outage', async () => {
    const origin = createStoredObjectOrigin({ store });
    const longer = { ...object, bytes: object.bytes + 1 };
    const reading = origin.read(longer, { start: 0, end: object.bytes }, never);
    await expect(reading).rejects.toMatchObject({ name: 'ObjectDamagedError' });
  });

  it('reports a failing store as an unavailable origin', async () => {
    const origin = createStoredObjectOrigin({ store: { read: () => Promise.reject(new Error('out')) } });
    const reading = origin.read(object, { start: 0, end: 1 }, never);
    await expect(reading).rejects.toMatchObject({ name: 'OriginUnavailableError', cause: { message: 'out' } });
  });

  it('ends an aborted read at once, before its first byte and after', async () => {
    const late = createStoredObjectOrigin({ store: { read: () => new Promise(() => undefined) } });
    const stopping = new AbortController();
    const waiting = late.read(object, { start: 0, end: 1 }, stopping.signal);
    const read = await createStoredObjectOrigin({ store }).read(object, { start: 0, end: 2 * MIB }, stopping.signal);
    stopping.abort(new Error('given up'));
    await expect(waiting).rejects.toThrow('given up');
    await expect(read && buffer(read)).rejects.toMatchObject({ name: 'AbortError' });
  });
});

describe('delivery from an object store', () => {
  it('refuses an object damaged in the store as corrupt, not as a passing outage', async () => {
    const house = await startDelivery({
      diskCacheBytes: 64 * MIB,
      wrapOrigin: () => createStoredObjectOrigin({ store: { read: (...of) => house.store.read(...of) } }),
    });
    onTestFinished(() => house.close());
    const picture = { name: 'large', extension: 'webp', contentType: 'image/webp', content: someBytes(MIB / 4) };
    const id = await house.addMedia([picture]);
    const file = await house.objectFile(id, picture);
    const damaged = await readFile(file);
    damaged[1000] = (damaged[1000] ?? 0) ^ 1;
    await writeFile(file, damaged);
    const refused = await house.get(`/media/${id}/large.webp`);
    expect([refused.status, JSON.parse(refused.body.toString())]).toMatchObject([500, { code: 'object_corrupt' }]);
    expect(house.logged.map(({ msg }) => msg)).toContainEqual(expect.stringContaining('`mds doctor --repair`'));
  });
});

describe('an object of several pieces without digests', () => {
  const film = { name: 'mp4', extension: 'mp4', contentType: 'video/mp4', content: someBytes(6 * MIB + 7) };
  const path = (id: string) => `/media/${id}/mp4.mp4`;
  /** Ranges that were requested from the store. */
  let asked: string[];
  const begin = async (diskCacheBytes: number | undefined, spoil: (chunk: Buffer) => Buffer = (chunk) => chunk) => {
    asked = [];
    const read: ObjectStore['read'] = async (key, range) => {
      asked.push(`${range?.start}-${range?.end}`);
      const found = await house.store.read(key, range);
      return found && { ...found, stream: found.stream.map(spoil) };
    };
    const house = await startDelivery({
      ...(diskCacheBytes === undefined ? {} : { diskCacheBytes }),
      pieceDigests: 'unknown',
      wrapOrigin: () => createStoredObjectOrigin({ store: { read } }),
    });
    onTestFinished(() => house.close());
    return { house, id: await house.addMedia([film]) };
  };
  const whole = `0-${film.content.length - 1}`;

  it.each([
    { cache: 'room in its cache', diskCacheBytes: 64 * MIB, first: [whole] },
    { cache: 'no room in its cache', diskCacheBytes: 8 * MIB, first: [whole, `0-${MIB - 1}`] },
    { cache: 'no cache', diskCacheBytes: undefined, first: [whole, `0-${MIB - 1}`] },
  ])('with $cache: is verified as a whole once, and then piece by piece', async (by) => {
    const { house, id } = await begin(by.diskCacheBytes);
    const range = await house.get(path(id), { range: 'bytes=10-19' });
    expect([range.status, range.body]).toEqual([206, film.content.subarray(10, 20)]);
    expect([...new Set(asked)]).toEqual(by.first);
    expect(asked.filter((one) => one === whole)).toHaveLength(1);
    expect((await house.repositories.pieceDigests.find(sha256Of(film.content)))?.length).toBe(7 * 32);

    house.delivery.purge('everything');
    await house.restart();
    asked.length = 0;
    const after = await house.get(path(id), { range: `bytes=${3 * MIB}-${3 * MIB + 9}` });
    expect([after.status, after.body]).toEqual([206, film.content.subarray(3 * MIB, 3 * MIB + 10)]);
    expect([...new Set(asked)]).toEqual([`${3 * MIB}-${4 * MIB - 1}`]);
    expect((await house.get(path(id))).body.equals(film.content)).toBe(true);
  });

  it('is read as a whole only once for simultaneous requests', async () => {
    const { house, id } = await begin(64 * MIB);
    const answers = await Promise.all(Array.from({ length: 8 }, () => house.get(path(id))));
    expect(answers.every(({ body }) => body.equals(film.content))).toBe(true);
    expect(asked).toEqual([whole]);
  });

  it.each([
    { cache: 'a cache', diskCacheBytes: 64 * MIB },
    { cache: 'no cache', diskCacheBytes: undefined },
  ])('with $cache: if damaged, is not delivered and no digest is stored', async ({ diskCacheBytes }) => {
    const { house, id } = await begin(diskCacheBytes, (chunk) => {
      const other = Buffer.from(chunk);
      other[0] = (other[0] ?? 0) ^ 1;
      return other;
    });
    const refused = await house.get(path(id), { range: 'bytes=10-19' });
    expect([refused.status, JSON.parse(refused.body.toString())]).toMatchObject([500, { code: 'object_corrupt' }]);
    expect(asked).toEqual([whole, whole]);
    expect(await house.repositories.pieceDigests.find(sha256Of(film.content))).toBeNull();
  });
});

describe.skipIf(withoutS3Server('delivery from S3'))('delivery from S3', () => {
  const s3 = useS3Server();

  it('reads an object from S3 once, then from the cache, even while S3 is down', async () => {
    const bench = await s3.bench({ limits: { attempts: 1 } });
    const house = await startDelivery({
      diskCacheBytes: 64 * MIB,
      wrapOrigin: () => createStoredObjectOrigin({ store: bench.store }),
    });
    onTestFinished(() => house.close());
    const film = { name: 'mp4', extension: 'mp4', contentType: 'video/mp4', content: someBytes(6 * MIB) };
    const id = await house.addMedia([film]);
    for await (const { key } of house.store.list('')) {
      await bench.store.put(key, await bench.staged((await house.store.readAll(key)) ?? Buffer.alloc(0)));
      await house.store.delete(key);
    }
    bench.proxy.requests.length = 0;
    const first = await house.get(`/media/${id}/mp4.mp4`);
    expect([first.headers['x-cache'], first.body.equals(film.content)]).toEqual(['MISS', true]);
    expect(bench.proxy.requests).toHaveLength(1);
    bench.proxy.spoil = () => ({ answer: 503, code: 'SlowDown' });
    const again = await house.get(`/media/${id}/mp4.mp4`);
    expect([again.headers['x-cache'], again.body.equals(film.content)]).toEqual(['HIT', true]);
    house.delivery.purge('everything');
    const out = await house.get(`/media/${id}/mp4.mp4`);
    expect([out.status, out.headers['retry-after']]).toEqual([503, '5']);
  });
});
