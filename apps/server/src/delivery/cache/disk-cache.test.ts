import { fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, open, readdir, readFile, readlink, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { basename, join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type DeliveryFixture, pattern, REVISION, sha256, startDelivery } from '../delivery.fixture.ts';
import { openFile } from './disk/open-file.ts';

const MIB = 1024 * 1024;
const thumb = { name: 'thumb', extension: 'webp', contentType: 'image/webp', content: pattern(10_000, 4) };
const film = (pieces: number, seed = 5) => ({
  ...{ name: 'mp4', extension: 'mp4', contentType: 'video/mp4' },
  content: Buffer.concat([randomBytes(pieces * MIB - 1000), Buffer.from([seed])]),
});

/** A point of presence with a remote origin. */
async function start(options: Parameters<typeof startDelivery>[0] = {}): Promise<DeliveryFixture> {
  const house = await startDelivery({ remote: true, diskCacheBytes: 64 * MIB, memoryCacheBytes: 8 * MIB, ...options });
  onTestFinished(() => house.close());
  return house;
}

async function cacheFiles(house: DeliveryFixture): Promise<string[]> {
  const names = await readdir(join(house.folder, 'cache'), { recursive: true, withFileTypes: true });
  return names.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}

/** Flips a bit in a cache file and keeps its times, as bad memory or a bad disk would. */
async function damage(file: string, at: number) {
  const { atime, mtime } = await stat(file);
  const handle = await open(file, 'r+');
  const byte = Buffer.alloc(1);
  await handle.read(byte, 0, 1, at);
  byte[0] = (byte[0] ?? 0) ^ 1;
  await handle.write(byte, 0, 1, at);
  await handle.close();
  await utimes(file, atime, mtime);
}

describe('the cache folder', () => {
  it('fetches an object once; if it is too large for memory, later reads are from disk', async () => {
    const house = await start();
    const large = film(5);
    const id = await house.addMedia([large]);
    const first = await house.get(`/media/${id}/mp4.mp4`);
    expect([first.headers['cache-status'], first.body.equals(large.content)]).toEqual([
      'fra1; fwd=uri-miss; stored',
      true,
    ]);
    const again = await house.get(`/media/${id}/mp4.mp4`);
    expect([again.headers['cache-status'], again.body.equals(large.content)]).toEqual(['fra1; hit', true]);
    // One request for all pieces, not one each.
    expect(house.remote.asked).toHaveLength(1);
    const [file] = await cacheFiles(house);
    expect((await stat(file ?? '')).mode & 0o777).toBe(0o600);
  });

  it('keeps a large object whose popular pieces are answered from memory', async () => {
    const house = await start({ diskCacheBytes: 20 * MIB, memoryCacheBytes: 64 * MIB });
    const [popular, second, third] = [film(8, 1), film(6, 2), film(7, 3)];
    const ids = await Promise.all([popular, second, third].map((rendition) => house.addMedia([rendition])));
    const [path = '', ...others] = ids.map((id) => `/media/${id}/mp4.mp4`);
    await house.get(path);
    const range = { range: `bytes=${3 * MIB}-${3 * MIB + 999}` };
    for (let times = 0; times < 3; times += 1) await house.get(path, range);
    await house.get(others[0] ?? '');
    await house.get(path, range);
    await house.get(others[1] ?? '');
    const asked = house.remote.asked.length;
    const whole = await house.get(path);
    expect(whole.body.equals(popular.content)).toBe(true);
    expect(house.remote.asked).toHaveLength(asked);
  });

  it('fetches only the pieces that a range needs', async () => {
    const house = await start();
    const large = film(8);
    const id = await house.addMedia([large]);
    const from = 3 * MIB + 5;
    const part = await house.get(`/media/${id}/mp4.mp4`, { range: `bytes=${from}-${from + MIB - 1}` });
    expect(part.body.equals(large.content.subarray(from, from + MIB))).toBe(true);
    expect(house.remote.asked.map((one) => one.split(' ')[1])).toEqual([`${3 * MIB}-${5 * MIB - 1}`]);
    // Only what is missing on both sides of the cached pieces.
    const all = await house.get(`/media/${id}/mp4.mp4`);
    expect([all.headers['x-cache'], all.body.equals(large.content)]).toEqual(['MISS', true]);
    const fetched = house.remote.asked.slice(1).map((one) => one.split(' ')[1]);
    expect(fetched).toEqual([`0-${3 * MIB - 1}`, `${5 * MIB}-${large.content.length - 1}`]);
  });

  it('sends the first piece while the rest is still being fetched', async () => {
    const house = await start();
    const large = film(6);
    const id = await house.addMedia([large]);
    let sent = 0;
    let release: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    house.remote.transport = async (bytes) => {
      sent += bytes.length;
      if (sent > 3 * MIB) await gate;
      return bytes;
    };
    const socket = connect(house.port, '127.0.0.1');
    onTestFinished(() => void socket.destroy());
    let received = 0;
    socket.on('data', (chunk) => {
      received += chunk.length;
    });
    socket.write(`GET /media/${id}/mp4.mp4 HTTP/1.1\r\nHost: a\r\n\r\n`);
    await expect.poll(() => received).toBeGreaterThan(MIB);
    expect(received).toBeLessThan(4 * MIB);
    release();
    await expect.poll(() => received).toBeGreaterThan(large.content.length);
  });

  it('completes its current fetch if the reader leaves, not the rest of a long film', async () => {
    const house = await start({ diskCacheBytes: 128 * MIB });
    const large = film(40);
    const id = await house.addMedia([large]);
    const socket = connect(house.port, '127.0.0.1');
    socket.on('error', () => undefined);
    socket.once('data', () => socket.destroy());
    socket.write(`GET /media/${id}/mp4.mp4 HTTP/1.1\r\nHost: a\r\n\r\n`);
    await expect.poll(() => house.delivery.stats.diskBytes).toBeGreaterThanOrEqual(16 * MIB);
    // Waits until no more bytes arrive.
    for (let before = -1; before !== house.delivery.stats.diskBytes; ) {
      before = house.delivery.stats.diskBytes;
      await new Promise((resolve) => setTimeout(resolve, 700));
    }
    expect(house.delivery.stats.diskBytes).toBeLessThanOrEqual(32 * MIB);
    const asked = house.remote.asked.length;
    const part = await house.get(`/media/${id}/mp4.mp4`, { range: `bytes=0-${16 * MIB - 1}` });
    expect([part.headers['x-cache'], part.body.equals(large.content.subarray(0, 16 * MIB))]).toEqual(['HIT', true]);
    expect(house.remote.asked).toHaveLength(asked);
  });

  it('shares one fetch among simultaneous requests, for large and small objects', async () => {
    const house = await start();
    const large = film(4);
    const id = await house.addMedia([large, thumb]);
    for (const { name, extension, content } of [large, thumb]) {
      house.remote.asked.length = 0;
      const answers = await Promise.all(
        Array.from({ length: 30 }, () => house.get(`/media/${id}/${name}.${extension}`)),
      );
      expect(answers.every(({ body }) => body.equals(content))).toBe(true);
      expect(house.remote.asked).toHaveLength(1);
    }
    expect(house.delivery.stats.collapsed).toBeGreaterThan(0);
  });

  it('stays within its size and evicts the least recently used', async () => {
    const house = await start({ diskCacheBytes: 16 * MIB, memoryCacheBytes: MIB });
    const films = Array.from({ length: 8 }, (_, n) => ({ ...film(3, n), name: `film${n}` }));
    const id = await house.addMedia(films);
    for (const { name } of films) {
      await house.get(`/media/${id}/${name}.mp4`);
      await house.get(`/media/${id}/film0.mp4`);
      expect(house.delivery.stats.diskBytes).toBeLessThanOrEqual(16 * MIB);
    }
    expect(house.delivery.stats.diskEvictions).toBeGreaterThan(0);
    await expect.poll(async () => (await cacheFiles(house)).length).toBe(house.delivery.stats.diskEntries);
    expect((await house.get(`/media/${id}/film0.mp4`)).headers['x-cache']).toBe('HIT');
    expect((await house.get(`/media/${id}/film1.mp4`)).headers['x-cache']).toBe('MISS');
  });

  it('passes an object larger than the cache through without storing it', async () => {
    const house = await start({ diskCacheBytes: 8 * MIB });
    const large = film(20);
    const id = await house.addMedia([large]);
    const { headers, body } = await house.get(`/media/${id}/mp4.mp4`);
    expect([headers['cache-status'], body.equals(large.content)]).toEqual(['fra1; fwd=uri-miss', true]);
    expect(house.delivery.stats.diskBytes).toBe(0);
  });

  it('deletes a purged object, completes reads in progress, and fetches it anew', async () => {
    const house = await start();
    const large = film(24);
    const id = await house.addMedia([large]);
    const path = `/media/${id}/mp4.mp4`;
    await house.get(path);
    const socket = connect(house.port, '127.0.0.1');
    socket.pause();
    const chunks: Buffer[] = [];
    socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`);
    await new Promise((resolve) => setTimeout(resolve, 300));
    house.delivery.purge({ path });
    await expect.poll(() => cacheFiles(house)).toEqual([]);
    socket.on('data', (chunk) => chunks.push(chunk));
    socket.resume();
    await new Promise((resolve) => socket.once('close', resolve));
    const received = Buffer.concat(chunks);
    expect(received.subarray(received.indexOf('\r\n\r\n') + 4).equals(large.content)).toBe(true);
    const asked = house.remote.asked.length;
    expect((await house.get(path)).headers['x-cache']).toBe('MISS');
    expect(house.remote.asked.length).toBeGreaterThan(asked);
    for (const scope of ['everything', { mediaId: id }] as const) {
      await house.get(path);
      house.delivery.purge(scope);
      await expect.poll(() => cacheFiles(house)).toEqual([]);
    }
    await expect.poll(async () => (await openFiles()).filter((target) => target.includes('/cache/med_'))).toEqual([]);
  });

  it('purges only the object of a path, even if the node no longer knows the path', async () => {
    const house = await start();
    const large = film(3);
    const id = await house.addMedia([large, thumb]);
    const path = `/media/${id}/mp4.mp4`;
    const purgeByDigest = async () => {
      for (const wanted of [path, `/media/${id}/thumb.webp`]) await house.get(wanted);
      await house.restart();
      house.delivery.purge({ path, objects: [sha256(large.content)] });
      await expect
        .poll(async () => (await cacheFiles(house)).map((file) => basename(file)))
        .toEqual([sha256(thumb.content)]);
    };
    await purgeByDigest();
    // Also requested by its immutable address: the purge closes that open file too.
    await house.get(`/media/${id}/mp4.${REVISION}.mp4`);
    house.delivery.purge({ path, objects: [sha256(large.content)] });
    expect((await house.get(path)).headers['x-cache']).toBe('MISS');
    expect((await house.get(`/media/${id}/thumb.webp`)).headers['x-cache']).toBe('HIT');
    // A purge without `objects` may mean any object of the media object, so all are dropped.
    await house.restart();
    house.delivery.purge({ path });
    await expect.poll(() => cacheFiles(house)).toEqual([]);
  });

  it('fetches an object again if another program removed its file', async () => {
    const house = await start();
    const large = film(3);
    const id = await house.addMedia([large]);
    await house.get(`/media/${id}/mp4.mp4`);
    for (const file of await cacheFiles(house)) await rm(file);
    expect((await house.get(`/media/${id}/mp4.mp4`)).body.equals(large.content)).toBe(true);
  });

  it('leaves the files of others alone', async () => {
    const house = await start();
    const foreign = join(house.folder, 'cache', 'notes', 'README.txt');
    await mkdir(join(house.folder, 'cache', 'notes'), { recursive: true });
    await writeFile(foreign, 'mine');
    house.delivery.purge('everything');
    await house.restart();
    house.delivery.purge('everything');
    await house.delivery.stop();
    expect(await readFile(foreign, 'utf8')).toBe('mine');
  });

  it('is warm after a restart: verifies everything again, and fetches nothing', async () => {
    const house = await start();
    const large = film(5);
    const id = await house.addMedia([large, thumb]);
    await house.get(`/media/${id}/mp4.mp4`);
    await house.get(`/media/${id}/thumb.webp`);
    await house.restart();
    house.remote.asked.length = 0;
    for (const { name, extension, content } of [large, thumb]) {
      const { headers, body } = await house.get(`/media/${id}/${name}.${extension}`);
      expect([headers['x-cache'], body.equals(content)]).toEqual(['HIT', true]);
    }
    expect(house.remote.asked).toEqual([]);
    await expect.poll(() => house.delivery.stats.diskEntries).toBe(2);
    expect(house.delivery.stats.diskBytes).toBeGreaterThanOrEqual(large.content.length);
  });

  it('keeps the pieces of a fill that was killed, and fetches only the missing ones', async () => {
    const house = await start();
    const large = film(12);
    const id = await house.addMedia([large]);
    const [row] = await house.repositories.media.renditions(id);
    const pieces = await house.repositories.pieceDigests.find(row?.sha256 ?? '');
    let sent = 0;
    house.remote.transport = async (bytes) => {
      sent += bytes.length;
      // Half-way the origin stops sending, until the process is dead.
      if (sent > 6 * MIB) await new Promise((resolve) => setTimeout(resolve, 60_000).unref());
      return bytes;
    };
    const dir = join(house.folder, 'cache');
    const object = { key: row?.objectKey, sha256: row?.sha256, bytes: row?.bytes, pieces: pieces?.toString('hex') };
    const fill = JSON.stringify({ url: house.remote.url, dir, mediaId: id, object });
    const child = fork(new URL('./disk/filling-process.fixture.ts', import.meta.url), [fill], {
      execArgv: ['--conditions=@mds/source', '--import', import.meta.resolve('tsx')],
    });
    const exited = new Promise((resolve) => child.once('exit', resolve));
    onTestFinished(() => void child.kill('SIGKILL'));
    const size = async () => {
      const [file] = await cacheFiles(house);
      return file === undefined ? 0 : (await stat(file)).size;
    };
    await expect.poll(size, { timeout: 20_000 }).toBeGreaterThanOrEqual(4 * MIB);
    child.kill('SIGKILL');
    await exited;
    // A partly written piece counts as missing.
    const kept = Math.floor((await size()) / MIB) * MIB;
    house.remote.transport = (bytes) => bytes;
    house.remote.asked.length = 0;
    await house.restart();
    const { body } = await house.get(`/media/${id}/mp4.mp4`);
    expect(body.equals(large.content)).toBe(true);
    expect(house.remote.asked.map((one) => one.split(' ')[1])).toEqual([`${kept}-${large.content.length - 1}`]);
  });

  it('is within its size right after a restart with a smaller one', async () => {
    const house = await start();
    const films = Array.from({ length: 5 }, (_, n) => ({ ...film(3, n), name: `film${n}` }));
    const id = await house.addMedia(films);
    for (const { name } of films) await house.get(`/media/${id}/${name}.mp4`);
    await house.restart({ diskCacheBytes: 7 * MIB });
    await expect.poll(async () => (await cacheFiles(house)).length).toBe(2);
    expect(house.delivery.stats.diskBytes).toBeLessThanOrEqual(7 * MIB);
  });
});

describe('fault 18: bytes that change in the cache or in transit', () => {
  it.each([
    ['of a large object', film(4), 2 * MIB + 7],
    ['of a small object', thumb, 1234],
  ])('a flipped byte in a cache file %s is fetched anew after a restart', async (_what, rendition, at) => {
    const house = await start();
    const id = await house.addMedia([rendition]);
    const path = `/media/${id}/${rendition.name}.${rendition.extension}`;
    await house.get(path);
    const [file] = await cacheFiles(house);
    await house.restart();
    await damage(file ?? '', at);
    house.remote.asked.length = 0;
    expect((await house.get(path)).body.equals(rendition.content)).toBe(true);
    expect(house.remote.asked).toHaveLength(1);
    expect(house.delivery.stats.damagedObjects).toBe(1);
    expect(house.logged.filter(({ level }) => level >= 50)).toHaveLength(1);
    expect((await readFile(file ?? '')).equals(rendition.content)).toBe(true);
  });

  it('a flipped byte in an open file is never served', async () => {
    const house = await start();
    const large = film(4);
    const id = await house.addMedia([large]);
    const path = `/media/${id}/mp4.mp4`;
    await house.get(path);
    const [file] = await cacheFiles(house);
    await damage(file ?? '', MIB + 9);
    expect((await house.get(path)).body.equals(large.content)).toBe(true);
    expect(house.delivery.stats.damagedObjects).toBe(1);
  });

  it('a corrupt piece is fetched once more; if it is corrupt twice, it is never served', async () => {
    const house = await start();
    const large = film(3);
    const id = await house.addMedia([large, thumb]);
    const flipFirst = (times: number) => {
      let left = times;
      house.remote.transport = (bytes) => {
        if (left === 0) return bytes;
        left -= 1;
        const other = Buffer.from(bytes);
        other[100] = (other[100] ?? 0) ^ 1;
        return other;
      };
    };
    flipFirst(1);
    expect((await house.get(`/media/${id}/mp4.mp4`)).body.equals(large.content)).toBe(true);
    expect(house.remote.asked).toHaveLength(2);
    flipFirst(2);
    const refused = await house.get(`/media/${id}/thumb.webp`);
    expect([refused.status, JSON.parse(refused.body.toString()).code]).toEqual([503, 'unavailable']);
    expect((await house.get(`/media/${id}/thumb.webp`)).body.equals(thumb.content)).toBe(true);
    expect(house.delivery.stats.damagedObjects).toBe(3);
  });

  it('an object without piece digests is verified in full before any byte is sent', async () => {
    const house = await start({ pieceDigests: 'unknown' });
    const large = film(3);
    const id = await house.addMedia([large]);
    let flip = true;
    house.remote.transport = (bytes) => {
      if (!flip) return bytes;
      const other = Buffer.from(bytes);
      other[other.length - 1] = (other.at(-1) ?? 0) ^ 1;
      return other;
    };
    expect((await house.get(`/media/${id}/mp4.mp4`, { range: 'bytes=0-9' })).status).toBe(503);
    flip = false;
    expect((await house.get(`/media/${id}/mp4.mp4`)).body.equals(large.content)).toBe(true);
  });

  it('a broken transfer is resumed unnoticed; an origin that is down is reported', async () => {
    const house = await start();
    const large = film(4);
    const id = await house.addMedia([large, thumb]);
    let sent = 0;
    house.remote.transport = (bytes, response) => {
      sent += bytes.length;
      if (sent > 2 * MIB && sent < 4 * MIB) {
        sent = 8 * MIB;
        response.destroy();
      }
      return bytes;
    };
    expect((await house.get(`/media/${id}/mp4.mp4`)).body.equals(large.content)).toBe(true);
    await house.remote.close();
    const away = await house.get(`/media/${id}/thumb.webp`);
    expect([away.status, away.headers['retry-after']]).toEqual([503, '5']);
    expect((await house.get(`/media/${id}/mp4.mp4`)).headers['x-cache']).toBe('HIT');
  });
});

describe('an open file', () => {
  it('completes reads in progress, and refuses reads after its close', async () => {
    const house = await start();
    const path = join(house.folder, 'some');
    await writeFile(path, pattern(4 * MIB));
    const file = await openFile(path);
    const into = Buffer.alloc(4 * MIB);
    const reading = file.read(into, 0);
    const closing = file.close();
    expect(await reading).toBe(4 * MIB);
    await closing;
    expect(into.equals(pattern(4 * MIB))).toBe(true);
    await expect(file.read(into, 0)).rejects.toThrow('closed');
  });
});

/** Paths of the files that this process has open. */
async function openFiles(): Promise<string[]> {
  const fds = await readdir('/proc/self/fd');
  return Promise.all(fds.map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')));
}
