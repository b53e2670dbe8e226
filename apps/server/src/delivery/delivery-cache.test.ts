import { open, readdir, readFile, readlink, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Database } from '../db/sqlite/driver.ts';
import { type DeliveryFixture, pattern, REVISION, sha256, startDelivery } from './delivery.fixture.ts';
import type { ObjectOrigin } from './object-origin.ts';

const MIB = 1024 * 1024;
const thumb = { name: 'thumb', extension: 'webp', contentType: 'image/webp', content: pattern(10_000, 4) };
const large = { name: 'mp4', extension: 'mp4', contentType: 'video/mp4', content: pattern(5 * MIB, 5) };

async function start(options: Parameters<typeof startDelivery>[0] = {}): Promise<DeliveryFixture> {
  const house = await startDelivery(options);
  onTestFinished(() => house.close());
  return house;
}

/** An origin that counts its reads and holds them back until `open`. */
function slowOrigin() {
  let reads = 0;
  let open: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  return {
    open: () => open(),
    reads: () => reads,
    wrap: (origin: ObjectOrigin): ObjectOrigin => ({
      ...origin,
      async localFile(object) {
        reads += 1;
        await gate;
        return origin.localFile(object);
      },
    }),
  };
}

async function flip(file: string, at: number) {
  const bytes = await readFile(file);
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  await writeFile(file, bytes);
}

const rawGet = (path: string, range: string) =>
  `GET ${path} HTTP/1.1\r\nHost: a\r\nRange: ${range}\r\nConnection: close\r\n\r\n`;

describe('the cache', () => {
  it('reports the same result in header, asset record and counter', async () => {
    const house = await start();
    const id = await house.addMedia([thumb]);
    const path = `/media/${id}/thumb.webp`;
    expect((await house.get(`${path}?a=1`)).headers['x-cache']).toBe('MISS');
    expect(await house.assets()).toMatchObject([{ path, region: 'fra1', bytes: 10_000, cacheStatus: 'MISS' }]);
    expect((await house.get(path, { range: 'bytes=0-0' })).headers['x-cache']).toBe('HIT');
    // The size of the whole object, whichever part was sent.
    expect(await house.assets()).toMatchObject([{ path, bytes: 10_000, cacheStatus: 'HIT' }]);
    await house.get(path, {}, 'HEAD');
    await house.get(path, { 'if-none-match': '*' });
    expect(house.delivery.stats).toMatchObject({ hits: 3, misses: 1, storeReads: 1, bytesSent: 10_001 });
  });

  it('counts successful deliveries only', async () => {
    const house = await start();
    const id = await house.addMedia([thumb]);
    const path = `/media/${id}/thumb.webp`;
    await house.get(`/media/${id}/nope.webp`);
    await house.get('/media/x');
    await house.get(path, { range: 'bytes=99999-' });
    await house.get(path, { 'if-match': '"x"' });
    await house.get(path, {}, 'POST');
    await house.get(`/media/${id}/thumb`, { accept: 'image/jxl' });
    expect(await house.assets()).toEqual([]);
    expect(house.delivery.stats).toMatchObject({ hits: 0, misses: 0 });
  });

  it('answers HEAD and 304 from the database, without reading the object', async () => {
    const house = await start();
    const id = await house.addMedia([thumb]);
    const head = await house.get(`/media/${id}/thumb.webp`, {}, 'HEAD');
    expect([head.status, head.headers['cache-status']]).toEqual([200, 'fra1; fwd=uri-miss']);
    expect((await house.get(`/media/${id}/thumb.webp`, { 'if-none-match': '*' })).status).toBe(304);
    expect(house.delivery.stats.storeReads).toBe(0);
  });

  it('reads an object once for any number of simultaneous requests', async () => {
    const slow = slowOrigin();
    const house = await start({ wrapOrigin: slow.wrap });
    const id = await house.addMedia([thumb]);
    const asking = Array.from({ length: 50 }, () => house.get(`/media/${id}/thumb.webp`));
    await expect.poll(slow.reads).toBe(1);
    await new Promise((resolve) => setTimeout(resolve, 50));
    slow.open();
    const answers = await Promise.all(asking);
    expect(answers.every(({ status, body }) => status === 200 && body.equals(thumb.content))).toBe(true);
    expect(slow.reads()).toBe(1);
    const statuses = answers.map(({ headers }) => headers['cache-status']);
    expect(statuses.filter((status) => status === 'fra1; fwd=uri-miss; stored')).toHaveLength(1);
    expect(statuses.filter((status) => status === 'fra1; fwd=uri-miss; stored; collapsed')).toHaveLength(49);
    expect(house.delivery.stats).toMatchObject({ misses: 50, hits: 0 });
  });

  it('continues the read for other requests when the first client leaves', async () => {
    const slow = slowOrigin();
    const house = await start({ wrapOrigin: slow.wrap });
    const id = await house.addMedia([thumb]);
    const leaver = connect(house.port, '127.0.0.1');
    leaver.write(`GET /media/${id}/thumb.webp HTTP/1.1\r\nHost: a\r\n\r\n`);
    await expect.poll(slow.reads).toBe(1);
    const stayer = house.get(`/media/${id}/thumb.webp`);
    leaver.destroy();
    await new Promise((resolve) => setTimeout(resolve, 50));
    slow.open();
    expect((await stayer).body.equals(thumb.content)).toBe(true);
    expect(slow.reads()).toBe(1);
    expect((await house.get(`/media/${id}/thumb.webp`)).headers['x-cache']).toBe('HIT');
  });

  it('stays within its size and reads evicted objects again', async () => {
    const house = await start({ memoryCacheBytes: 128 * 1024 });
    const many = Array.from({ length: 30 }, (_, n) => ({ ...thumb, name: `thumb${n}`, content: pattern(10_000, n) }));
    const id = await house.addMedia(many);
    for (const { name } of many) await house.get(`/media/${id}/${name}.webp`);
    expect(house.delivery.stats.memoryBytes).toBeLessThanOrEqual(128 * 1024);
    const again = await house.get(`/media/${id}/thumb0.webp`);
    expect([again.headers['x-cache'], again.body.equals(pattern(10_000, 0))]).toEqual(['MISS', true]);
  });

  it('reads a large object from the store: verified the first time, then a hit', async () => {
    const house = await start({ memoryCacheBytes: MIB });
    const id = await house.addMedia([large]);
    for (const expected of [
      ['fra1; fwd=uri-miss; stored', 'MISS'],
      ['fra1; hit', 'HIT'],
    ]) {
      const { headers, body } = await house.get(`/media/${id}/mp4.mp4`);
      expect([headers['cache-status'], headers['x-cache']]).toEqual(expected);
      expect(body.equals(large.content)).toBe(true);
    }
    expect(house.delivery.stats.memoryBytes).toBe(0);
  });

  it('answers a repeated segment from memory, byte for byte, until a purge', async () => {
    const house = await start({ memoryCacheBytes: 64 * MIB });
    const segment = { ...large, content: large.content.subarray(0, 2 * MIB + 5) };
    const id = await house.addMedia([segment]);
    const path = `/media/${id}/mp4.mp4`;
    const cache: unknown[] = [];
    for (let turn = 0; turn < 4; turn += 1) {
      const whole = await house.get(path);
      const part = await house.get(path, { range: `bytes=${MIB - 7}-${2 * MIB}` });
      expect(whole.body.equals(segment.content)).toBe(true);
      expect(part.body.equals(segment.content.subarray(MIB - 7, 2 * MIB + 1))).toBe(true);
      cache.push(whole.headers['x-cache'], part.headers['x-cache']);
    }
    expect(cache).toEqual(['MISS', ...Array.from({ length: 7 }, () => 'HIT')]);
    expect(house.delivery.stats).toMatchObject({ memoryEntries: 3 });
    // All of it is in memory, so the file is no longer needed.
    await rm(await house.objectFile(id, segment));
    expect((await house.get(path)).body.equals(segment.content)).toBe(true);
    house.delivery.purge({ path });
    expect(house.delivery.stats.memoryEntries).toBe(0);
    expect((await house.get(path)).status).toBe(500);
  });

  it('takes no damaged byte into memory: a file that changed is verified again', async () => {
    const house = await start({ memoryCacheBytes: 64 * MIB });
    const id = await house.addMedia([large]);
    const path = `/media/${id}/mp4.mp4`;
    const range = { range: `bytes=${MIB}-${3 * MIB - 1}` };
    expect((await house.get(path, range)).status).toBe(206);
    await flip(await house.objectFile(id, large), 2 * MIB + 17);
    const answers = await Promise.all(Array.from({ length: 4 }, () => house.raw(rawGet(path, range.range))));
    for (const answer of answers) {
      const bytes = Buffer.from(answer.split('\r\n\r\n').slice(1).join('\r\n\r\n'), 'latin1');
      const isRefused = answer.startsWith('HTTP/1.1 500');
      expect(isRefused || bytes.equals(large.content.subarray(MIB, MIB + bytes.length))).toBe(true);
      expect(isRefused || bytes.length <= MIB).toBe(true);
    }
    const memory = await house.get(path, { range: `bytes=${MIB}-${2 * MIB - 1}` });
    expect(memory.body.equals(large.content.subarray(MIB, 2 * MIB))).toBe(true);
  });

  it('applies a delete to the next answer, and frees the memory', async () => {
    const house = await start();
    const id = await house.addMedia([thumb]);
    const path = `/media/${id}/thumb.webp`;
    await house.get(path);
    await house.get(`/media/${id}/manifest.json`);
    expect((await house.get(path)).headers['x-cache']).toBe('HIT');
    await house.repositories.media.delete(id);
    house.delivery.evict(id);
    for (const gone of [path, `/media/${id}/thumb`, `/media/${id}/manifest.json`]) {
      expect((await house.get(gone)).status).toBe(404);
    }
    expect(house.delivery.stats).toMatchObject({ memoryEntries: 0, memoryBytes: 0 });
  });

  it('delivers a revision of another process within a second, and the old one by name', async () => {
    const house = await start();
    const id = await house.addMedia([thumb]);
    const path = `/media/${id}/thumb.webp`;
    await house.get(path);
    const next = pattern(500, 77);
    const staged = `${house.databaseFile}.staged`;
    await writeFile(staged, next);
    await house.store.put('renditions/new', { path: staged, bytes: 500, sha256: sha256(next) });
    const elsewhere = new Database(house.databaseFile);
    elsewhere.exec(`
      BEGIN IMMEDIATE;
      UPDATE media_renditions SET current = 0 WHERE media_id = '${id}';
      INSERT INTO media_renditions SELECT media_id, name, extension, content_type, 'ffffffff', 1, state, reason,
        'renditions/new', '${sha256(next)}', 500, 1, width, height, updated_at_ms FROM media_renditions WHERE media_id = '${id}';
      UPDATE versions SET value = value + 1 WHERE name = 'media';
      COMMIT;`);
    elsewhere.close();
    const isNew = async () => (await house.get(path)).body.equals(next);
    await expect.poll(isNew, { timeout: 1000, interval: 10 }).toBe(true);
    const old = await house.get(`/media/${id}/thumb.0a1b2c3d.webp`);
    expect([old.status, old.body.equals(thumb.content)]).toEqual([200, true]);
  });

  it('answers 503 with Retry-After while storage or database fail', async () => {
    let broken = true;
    const house = await start({
      wrapOrigin: (origin) => ({
        ...origin,
        localFile: (object) => (broken ? Promise.reject(new Error('EIO /secret/path')) : origin.localFile(object)),
      }),
    });
    const id = await house.addMedia([thumb]);
    const { status, headers, body } = await house.get(`/media/${id}/thumb.webp`);
    expect([status, headers['retry-after']]).toEqual([503, '5']);
    expect(body.toString()).not.toContain('secret');
    broken = false;
    expect((await house.get(`/media/${id}/thumb.webp`)).status).toBe(200);
    await house.repositories.close();
    // A version that was just read is trusted for a moment; see VersionClock.
    await new Promise((resolve) => setTimeout(resolve, 50));
    const offline = await house.get(`/media/${id}/thumb.webp`);
    expect([offline.status, offline.headers['retry-after']]).toEqual([503, '5']);
  });
});

describe('invariant 6, fault 18: an object that changed in the store', () => {
  const damages: [string, (file: string) => Promise<void>][] = [
    ['a flipped byte', (file) => flip(file, 1234)],
    ['a flipped last byte', async (file) => flip(file, (await stat(file)).size - 1)],
    ['a truncated object', (file) => truncate(file, 1000)],
    ['an emptied object', (file) => truncate(file, 0)],
    ['bytes appended', async (file) => writeFile(file, Buffer.alloc(10), { flag: 'a' })],
    ['an object that is gone', (file) => rm(file)],
  ];
  describe.each([
    { kind: 'in memory', rendition: thumb },
    { kind: 'from the store, its pieces unknown', rendition: large },
  ])('delivered $kind', ({ rendition }) => {
    it.each(damages)('%s is never delivered, not even in part, and is logged', async (_what, damage) => {
      const house = await start({ memoryCacheBytes: MIB, pieceDigests: 'unknown' });
      const id = await house.addMedia([rendition]);
      await damage(await house.objectFile(id, rendition));
      const path = `/media/${id}/${rendition.name}.${rendition.extension}`;
      for (const headers of [{}, { range: 'bytes=0-9' }, { range: 'bytes=0-0,5-6' }]) {
        const answer = await house.get(path, headers);
        expect(answer.status).toBe(500);
        expect(answer.headers['cache-control']).toBe('no-store');
        expect(JSON.parse(answer.body.toString())).toMatchObject({ code: 'object_corrupt' });
      }
      expect(house.delivery.stats).toMatchObject({ damagedObjects: 1, hits: 0, misses: 0, memoryEntries: 0 });
      expect(house.logged.filter(({ level }) => level >= 50)).toHaveLength(1);
      expect(await house.assets()).toEqual([]);
    });
  });

  describe('with digests of its pieces', () => {
    it('a flipped byte blocks only its piece: transfers end before it, others succeed', async () => {
      const house = await start({ memoryCacheBytes: MIB });
      const id = await house.addMedia([large]);
      await flip(await house.objectFile(id, large), 3 * MIB + 17);
      const path = `/media/${id}/mp4.mp4`;
      expect((await house.get(path, { range: `bytes=${3 * MIB}-${3 * MIB}` })).status).toBe(500);
      const received = (await house.raw(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`))
        .split('\r\n\r\n')
        .slice(1)
        .join('\r\n\r\n');
      const bytes = Buffer.from(received, 'latin1');
      expect(bytes.length).toBeLessThanOrEqual(3 * MIB);
      expect(bytes.equals(large.content.subarray(0, bytes.length))).toBe(true);
      const after = await house.get(path, { range: `bytes=${4 * MIB}-` });
      expect([after.status, after.body.equals(large.content.subarray(4 * MIB))]).toEqual([206, true]);
      expect(house.delivery.stats.damagedObjects).toBe(1);
    });

    it('if damaged after its first delivery, is not delivered again', async () => {
      const house = await start({ memoryCacheBytes: MIB });
      const id = await house.addMedia([large]);
      const path = `/media/${id}/mp4.mp4`;
      expect((await house.get(path)).status).toBe(200);
      const handle = await open(await house.objectFile(id, large), 'r+');
      await handle.write(Buffer.from([1, 2, 3, 4]), 0, 4, 4 * MIB);
      await handle.close();
      expect((await house.get(path, { range: `bytes=${4 * MIB + 9}-` })).status).toBe(500);
      const sound = await house.get(path, { range: 'bytes=0-9' });
      expect([sound.status, sound.body.equals(large.content.subarray(0, 10))]).toEqual([206, true]);
    });
  });

  it('is read and verified anew after a purge, even by an address never requested', async () => {
    const house = await start({ memoryCacheBytes: MIB });
    const id = await house.addMedia([large]);
    const cache = async () => (await house.get(`/media/${id}/mp4.mp4`)).headers['x-cache'];
    expect([await cache(), await cache()]).toEqual(['MISS', 'HIT']);
    house.delivery.purge({ path: `/media/${id}/mp4.${REVISION}.mp4`, objects: [sha256(large.content)] });
    expect([await cache(), await cache()]).toEqual(['MISS', 'HIT']);
  });

  it('is still delivered from memory, if it is small and was delivered before', async () => {
    const house = await start();
    const id = await house.addMedia([thumb]);
    await house.get(`/media/${id}/thumb.webp`);
    await rm(await house.objectFile(id, thumb));
    expect((await house.get(`/media/${id}/thumb.webp`)).body.equals(thumb.content)).toBe(true);
  });

  it('is delivered again once it is repaired', async () => {
    const house = await start();
    const id = await house.addMedia([thumb]);
    const file = await house.objectFile(id, thumb);
    await flip(file, 0);
    const status = async () => (await house.get(`/media/${id}/thumb.webp`)).status;
    expect(await status()).toBe(500);
    await flip(file, 0);
    await expect.poll(status, { timeout: 3000 }).toBe(200);
  });

  it('is not found instead of damaged, if its media object was just deleted', async () => {
    let remove: (() => Promise<unknown>) | null = null;
    const house = await start({
      wrapOrigin: (origin) => ({
        ...origin,
        async localFile(object) {
          await remove?.();
          return origin.localFile(object);
        },
      }),
    });
    const id = await house.addMedia([thumb]);
    const file = await house.objectFile(id, thumb);
    remove = async () => {
      await house.repositories.media.delete(id);
      await rm(file);
    };
    const { status, body } = await house.get(`/media/${id}/thumb.webp`);
    expect([status, JSON.parse(body.toString()).code]).toEqual([404, 'media_not_found']);
  });

  it('is reported to the operator by the probe, if it is missing', async () => {
    const house = await start();
    const id = await house.addMedia([thumb]);
    await house.get(`/media/${id}/thumb.webp`);
    await house.delivery.probe();
    await rm(await house.objectFile(id, thumb));
    // Two probes, as a state changes only after two probes agree.
    await expect(house.delivery.probe()).rejects.toThrow(/missing/);
    await expect(house.delivery.probe()).rejects.toThrow(/missing/);
    await house.repositories.media.delete(id);
    await house.delivery.probe();
  });
});

describe('slow readers and readers that leave', () => {
  /** Sends a request and then reads nothing. */
  const stall = (house: DeliveryFixture, path: string) => {
    const socket = connect(house.port, '127.0.0.1');
    socket.on('error', () => undefined);
    socket.pause();
    socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`);
    return socket;
  };

  it('do not each hold a file or the whole object in memory', async () => {
    const size = 24 * MIB;
    const house = await start({ memoryCacheBytes: MIB });
    const id = await house.addMedia([{ ...large, content: pattern(size) }]);
    const path = `/media/${id}/mp4.mp4`;
    await house.get(path, { range: 'bytes=0-0' });
    const files = async () => (await openFiles()).filter((target) => target.endsWith('.mp4')).length;
    const held = () => new Promise<number>((resolve) => house.server.getConnections((_, count) => resolve(count)));
    const before = process.memoryUsage();
    const sockets = Array.from({ length: 40 }, () => stall(house, path));
    await expect.poll(held).toBe(40);
    await new Promise((resolve) => setTimeout(resolve, 200));
    const after = process.memoryUsage();
    // All 40 readers share one open file. The unread part of their 24 MiB stays on disk.
    expect(await files()).toBe(1);
    expect(after.arrayBuffers - before.arrayBuffers).toBeLessThan(40 * MIB);
    // Other readers are served meanwhile.
    expect((await house.get(path, { range: 'bytes=-1' })).status).toBe(206);
    for (const socket of sockets) socket.destroy();
    await expect.poll(held, { timeout: 5000 }).toBe(0);
    house.delivery.purge({ mediaId: id });
    await expect.poll(files, { timeout: 5000 }).toBe(0);
    expect(house.logged.filter(({ level }) => level >= 50)).toEqual([]);
  });

  it('receive the whole object when they continue', async () => {
    const house = await start({ memoryCacheBytes: MIB });
    const content = pattern(12 * MIB, 3);
    const id = await house.addMedia([{ ...large, content }]);
    const socket = stall(house, `/media/${id}/mp4.mp4`);
    await new Promise((resolve) => setTimeout(resolve, 200));
    const chunks: Buffer[] = [];
    let length = 0;
    socket.on('data', (chunk) => {
      chunks.push(chunk);
      length += chunk.length;
    });
    socket.resume();
    await expect.poll(() => length, { timeout: 10_000 }).toBeGreaterThanOrEqual(content.length);
    socket.destroy();
    const all = Buffer.concat(chunks);
    expect(all.subarray(all.indexOf('\r\n\r\n') + 4).equals(content)).toBe(true);
  });

  it('lose the connection if a file is cut: no other answer may pass for its rest', async () => {
    const house = await start({ memoryCacheBytes: MIB });
    const content = pattern(24 * MIB, 3);
    const id = await house.addMedia([{ ...large, content }]);
    const socket = stall(house, `/media/${id}/mp4.mp4`);
    socket.write('GET /media/none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n');
    // Waits until the head of the answer is sent.
    await expect.poll(() => house.delivery.stats.misses).toBe(1);
    await new Promise((resolve) => setTimeout(resolve, 300));
    await truncate(await house.objectFile(id, large), 20 * MIB);
    const chunks: Buffer[] = [];
    socket.on('data', (chunk) => chunks.push(chunk));
    socket.resume();
    await new Promise((resolve) => socket.on('close', resolve));
    const received = Buffer.concat(chunks);
    expect(received.length).toBeLessThan(content.length);
    expect(received.includes('HTTP/1.1 404')).toBe(false);
    expect(house.logged.at(-1)?.msg).toContain('delivery broke off');
  });

  it('receive pipelined answers in order, from files and from memory', async () => {
    const house = await start({ memoryCacheBytes: MIB });
    const id = await house.addMedia([large, thumb]);
    const ask = (name: string, more = '') => `GET /media/${id}/${name} HTTP/1.1\r\nHost: a\r\n${more}\r\n`;
    const answers = await house.raw(ask('mp4.mp4') + ask('thumb.webp') + ask('mp4.mp4', 'Connection: close\r\n'));
    const bodies = answers.split(/HTTP\/1\.1 200 OK\r\n(?:[^\r]+\r\n)+\r\n/).slice(1);
    expect(bodies.map((body) => sha256(Buffer.from(body, 'latin1')))).toEqual(
      [large, thumb, large].map((rendition) => sha256(rendition.content)),
    );
  });
});

/** Paths of the files that this process has open. */
async function openFiles(): Promise<string[]> {
  const fds = await readdir('/proc/self/fd');
  return Promise.all(fds.map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')));
}
