import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { smallVolume } from '../../test/support/small-volume.ts';
import { createLocalObjectStore } from './local-object-store.ts';
import { objectStoreConformance } from './object-store.conformance.ts';

objectStoreConformance('local', async () => {
  const root = await mkdtemp(join(tmpdir(), 'mds-store-'));
  return { store: createLocalObjectStore({ root }), close: () => rm(root, { recursive: true }) };
});

describe('local object store', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'mds-store-'));
  });
  afterEach(() => rm(folder, { recursive: true }));

  const staged = async (content: string | Buffer, name = 'staged') => {
    const path = join(folder, name);
    await writeFile(path, content);
    return { path, bytes: content.length, sha256: '' };
  };

  it('removes folders with their last object, so that an empty store has none', async () => {
    const root = join(folder, 'root');
    const store = createLocalObjectStore({ root });
    await store.put('renditions/ab/one/thumb.webp', await staged('1'));
    await store.put('renditions/ab/two/thumb.webp', await staged('2'));
    await store.delete('renditions/ab/one/thumb.webp');
    expect(await readdir(join(root, 'renditions/ab'))).toEqual(['two']);
    await store.delete('renditions/ab/two/thumb.webp');
    expect(await readdir(root)).toEqual([]);
  });

  it('loses no put while the last other object in the folder is deleted', async () => {
    const store = createLocalObjectStore({ root: join(folder, 'root') });
    await store.put('r/x/0', await staged('0', 'staged-0'));
    for (let round = 1; round <= 150; round++) {
      const next = await staged('next', `staged-${round}`);
      // The delay varies over the duration of a put, so that the folder is removed between any two of its steps.
      const meanwhile = delay((round % 30) / 5).then(() => store.delete(`r/x/${round - 1}`));
      await Promise.all([meanwhile, store.put(`r/x/${round}`, next)]);
      expect(await store.stat(`r/x/${round}`), `round ${round}`).toEqual({ bytes: 4 });
    }
  });

  it('hides objects from other users of the machine', async () => {
    const root = join(folder, 'root');
    await createLocalObjectStore({ root }).put('a/b', await staged('1'));
    expect((await stat(root)).mode & 0o777).toBe(0o700);
    expect((await stat(join(root, 'a'))).mode & 0o777).toBe(0o700);
  });

  it('never lists a folder or a link out of the store as an object', async () => {
    const root = join(folder, 'root');
    const store = createLocalObjectStore({ root });
    await store.put('a/b', await staged('1'));
    await mkdir(join(root, 'a', 'folder'));
    await symlink('/etc/passwd', join(root, 'a', 'link'));
    const keys: string[] = [];
    for await (const { key } of store.list('a/')) keys.push(key);
    expect(keys).toEqual(['a/b']);
    expect(await store.stat('a/folder')).toBeNull();
  });
});

describe('fault 17: a volume that cannot be written', () => {
  const volume = smallVolume({ mebibytes: 1 });

  it.skipIf(!volume.available)('if full: 507, no partial file remains, and objects are still readable', async () => {
    await volume.use(async (root) => {
      const store = createLocalObjectStore({ root });
      const folder = await mkdtemp(join(tmpdir(), 'mds-staging-'));
      try {
        const small = join(folder, 'small');
        await writeFile(small, 'small');
        // The file is on another file system, so the store must copy it, and the copy fills the volume.
        await store.put('a/small', { path: small, bytes: 5, sha256: '' });
        const large = join(folder, 'large');
        await writeFile(small, 'second');
        await writeFile(large, Buffer.alloc(3 * 1024 * 1024, 7));
        const put = store.put('a/large', { path: large, bytes: 3 * 1024 * 1024, sha256: '' });
        await expect(put).rejects.toMatchObject({ code: 'insufficient_storage', status: 507 });
        expect(await readdir(join(root, '.incoming'))).toEqual([]);
        expect(await store.stat('a/large')).toBeNull();
        // A complete copy is removed too, if something else is at its place.
        await mkdir(join(root, 'a', 'taken'));
        const blocked = store.put('a/taken', { path: small, bytes: 6, sha256: '' });
        await expect(blocked).rejects.toThrow();
        expect(await readdir(join(root, '.incoming'))).toEqual([]);
        expect((await readFile(large)).length).toBe(3 * 1024 * 1024);
        expect((await store.readAll('a/small'))?.toString()).toBe('small');
        await writeFile(small, 'after');
        await store.put('a/after', { path: small, bytes: 5, sha256: '' });
        expect((await store.readAll('a/after'))?.toString()).toBe('after');
      } finally {
        await rm(folder, { recursive: true });
      }
    });
  });

  it.skipIf(!volume.available)('if read-only: 507 for puts, deletes and the probe; reads still work', async () => {
    await volume.use(async (root) => {
      const store = createLocalObjectStore({ root });
      const file = join(root, 'staged');
      await writeFile(file, 'object');
      await store.put('a/object', { path: file, bytes: 6, sha256: '' });
      await writeFile(file, 'second');
      execFileSync('mount', ['-o', 'remount,ro', root]);
      const refused = { code: 'insufficient_storage', status: 507 };
      await expect(store.put('a/second', { path: file, bytes: 6, sha256: '' })).rejects.toMatchObject(refused);
      await expect(store.delete('a/object')).rejects.toMatchObject(refused);
      await expect(store.probe()).rejects.toMatchObject(refused);
      expect((await store.readAll('a/object'))?.toString()).toBe('object');
    });
  });
});
