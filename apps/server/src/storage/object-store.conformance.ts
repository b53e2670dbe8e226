import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { originalKey, renditionKey } from '../base/object-key.ts';
import type { ObjectStore } from './object-store.ts';

/**
 * The requirements for every object store, whichever storage it uses.
 * @param open an empty store of the adapter under test
 */
export function objectStoreConformance(
  adapter: string,
  open: () => Promise<{ store: ObjectStore; close(): Promise<void> }>,
): void {
  describe(`${adapter}: object store conformance`, () => {
    let store: ObjectStore;
    let close: () => Promise<void>;
    let folder: string;
    let files = 0;

    beforeAll(async () => {
      ({ store, close } = await open());
      folder = await mkdtemp(join(tmpdir(), 'mds-conformance-'));
    });
    afterAll(async () => {
      await close();
      await rm(folder, { recursive: true });
    });

    const staged = async (content: Buffer) => {
      const path = join(folder, `staged-${files++}`);
      await writeFile(path, content);
      return { path, bytes: content.length, sha256: createHash('sha256').update(content).digest('hex') };
    };
    const put = async (key: string, content: Buffer) => {
      const file = await staged(content);
      await store.put(key, file);
      return file;
    };
    const keysUnder = async (prefix: string) => {
      const found: { key: string; bytes: number }[] = [];
      for await (const object of store.list(prefix)) found.push(object);
      return found.sort((a, b) => (a.key < b.key ? -1 : 1));
    };

    it('returns the bytes that were put, byte for byte', async () => {
      const content = randomBytes(300_000);
      await put('a/whole', content);
      const read = await store.read('a/whole');
      expect(read?.bytes).toBe(content.length);
      expect(read && content.equals(await buffer(read.stream))).toBe(true);
      expect(content.equals((await store.readAll('a/whole')) ?? Buffer.alloc(0))).toBe(true);
      expect(await store.stat('a/whole')).toEqual({ bytes: content.length });
    });

    it('stores an object of zero bytes', async () => {
      await put('a/empty', Buffer.alloc(0));
      expect(await store.stat('a/empty')).toEqual({ bytes: 0 });
      expect((await store.readAll('a/empty'))?.length).toBe(0);
      const read = await store.read('a/empty', { start: 0, end: 9 });
      expect(read?.bytes).toBe(0);
      expect(read && (await buffer(read.stream)).length).toBe(0);
    });

    it('removes the staged file, so that staging does not fill up', async () => {
      const first = await put('a/moved', Buffer.from('moved'));
      await expect(stat(first.path)).rejects.toThrow('ENOENT');
      const again = await put('a/moved', Buffer.from('moved'));
      await expect(stat(again.path)).rejects.toThrow('ENOENT');
      expect((await store.readAll('a/moved'))?.toString()).toBe('moved');
    });

    it('replaces a truncated object, so that another upload repairs it', async () => {
      await put('a/cut', Buffer.from('whole-obj'));
      await put('a/cut', Buffer.from('whole-object'));
      expect((await store.readAll('a/cut'))?.toString()).toBe('whole-object');
    });

    it('reads exactly the requested range', async () => {
      const content = randomBytes(2_500_000);
      await put('a/ranged', content);
      for (const [start, end] of [
        [0, 0],
        [0, content.length - 1],
        [1_048_575, 1_048_577],
        [2_000_000, 2_499_999],
        [content.length - 1, content.length - 1],
      ] as const) {
        const read = await store.read('a/ranged', { start, end });
        expect(read?.bytes).toBe(end - start + 1);
        expect(read && content.subarray(start, end + 1).equals(await buffer(read.stream))).toBe(true);
      }
    });

    it('returns the available bytes if a range exceeds the object', async () => {
      await put('a/short', Buffer.from('0123456789'));
      const across = await store.read('a/short', { start: 8, end: 20 });
      expect(across?.bytes).toBe(2);
      expect(across && (await buffer(across.stream)).toString()).toBe('89');
      const beyond = await store.read('a/short', { start: 10, end: 20 });
      expect(beyond?.bytes).toBe(0);
      expect(beyond && (await buffer(beyond.stream)).length).toBe(0);
    });

    it('keeps an object readable after a reader stops half-way', async () => {
      await put('a/left', randomBytes(3_000_000));
      const read = await store.read('a/left');
      for await (const piece of read?.stream ?? []) {
        expect(piece.length).toBeGreaterThan(0);
        break;
      }
      expect((await store.readAll('a/left'))?.length).toBe(3_000_000);
    });

    it('returns null, not an error, for a missing object', async () => {
      expect(await store.stat('none/such')).toBeNull();
      expect(await store.read('none/such')).toBeNull();
      expect(await store.read('none/such', { start: 0, end: 1 })).toBeNull();
      expect(await store.readAll('none/such')).toBeNull();
      expect(await store.localFile('none/such')).toBeNull();
      await store.delete('none/such');
      expect(await keysUnder('none/')).toEqual([]);
    });

    it('deletes an object, and none of its neighbours', async () => {
      await put('d/x/one', Buffer.from('1'));
      await put('d/x/two', Buffer.from('2'));
      await store.delete('d/x/one');
      expect(await store.stat('d/x/one')).toBeNull();
      expect((await store.readAll('d/x/two'))?.toString()).toBe('2');
      await store.delete('d/x/two');
      expect(await keysUnder('d/')).toEqual([]);
      await put('d/x/one', Buffer.from('again'));
      expect((await store.readAll('d/x/one'))?.toString()).toBe('again');
    });

    it('lists every key under a prefix with its size, and no other', async () => {
      const sha256 = 'ab'.repeat(32);
      const original = originalKey(sha256);
      const rendition = renditionKey({ sourceSha256: sha256, name: 'thumb', revision: '01234567', extension: 'webp' });
      await put(original, Buffer.from('original'));
      await put(rendition, Buffer.from('thumb'));
      expect(await keysUnder('originals/')).toEqual([{ key: original, bytes: 8 }]);
      expect(await keysUnder(rendition.slice(0, -4))).toEqual([{ key: rendition, bytes: 5 }]);
      expect(await keysUnder('orig')).toEqual([{ key: original, bytes: 8 }]);
      expect((await keysUnder('')).map(({ key }) => key)).toEqual(expect.arrayContaining([original, rendition]));
    });

    it('provides a local file with the object', async () => {
      await put('a/local', Buffer.from('local'));
      const file = await store.localFile('a/local');
      expect((await stat(file?.path ?? '')).size).toBe(5);
      await file?.release();
      expect((await store.readAll('a/local'))?.toString()).toBe('local');
    });

    it('fault 21: refuses every key that could leave the store, and touches nothing', async () => {
      const bad = [
        '',
        '/a',
        'a/',
        'a//b',
        '../a',
        'a/../b',
        'a/..',
        '.',
        './a',
        '.incoming/x',
        'A',
        'a\0b',
        'a b',
        'a\\b',
      ];
      for (const key of [...bad, 'é', '%2e%2e/a', 'a'.repeat(600)]) {
        await expect(store.stat(key), key).rejects.toThrow(RangeError);
        await expect(store.read(key), key).rejects.toThrow(RangeError);
        await expect(store.delete(key), key).rejects.toThrow(RangeError);
        const file = await staged(Buffer.from('x'));
        await expect(store.put(key, file), key).rejects.toThrow(RangeError);
        expect((await stat(file.path)).size).toBe(1);
      }
    });

    it('loses nothing in many simultaneous puts and deletes', async () => {
      await Promise.all(
        Array.from({ length: 60 }, async (_, index) => {
          const key = `c/${index % 3}/object-${index}`;
          await put(key, Buffer.from(String(index)));
          if (index % 2 === 0) await store.delete(key);
        }),
      );
      const left = await keysUnder('c/');
      expect(left.map(({ key }) => Number(key.split('-')[1])).sort((a, b) => a - b)).toEqual(
        Array.from({ length: 30 }, (_, index) => index * 2 + 1),
      );
    });

    it('passes a probe if healthy, which leaves nothing behind', async () => {
      const before = await keysUnder('');
      await store.probe();
      expect(await keysUnder('')).toEqual(before);
    });
  });
}
