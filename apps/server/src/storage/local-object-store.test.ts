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

  it('removes folders with their last object: an emptied store leaves none', async () => {
    const root = join(folder, 'root');
    const store = createLocalObjectStore({ root });
    await store.put('renditions/ab/one/thumb.webp', await staged('1'));
    await store.put('renditions/ab/two/thumb.webp', await staged('2'));
    await store.delete('renditions/ab/one/thumb.webp');
    expect(await readdir(join(root, 'renditions/ab'))).toEqual(['two']);
    await store.delete('renditions/ab/two/thumb.webp');
    expect(await readdir(root)).toEqual([]);
  });

  it('a put while the last object beside it is deleted is never lost with the folder', async () => {
    const store = createLocalObjectStore({ root: join(folder, 'root') });
    await store.put('r/x/0', await staged('0', 'staged-0'));
    for (let round = 1; round <= 150; round++) {
      const next = await staged('next', `staged-${round}`);
      // Later and later within the time that a put takes, so that the folder goes between any two of its steps.
      const meanwhile = delay((round % 30) / 5).then(() => store.delete(`r/x/${round - 1}`));
      await Promise.all([meanwhile, store.put(`r/x/${round}`, next)]);
      expect(await store.stat(`r/x/${round}`), `round ${round}`).toEqual({ bytes: 4 });
    }
  });

  it('keeps objects from other users of the machine', async () => {
    const root = join(folder, 'root');
    await createLocalObjectStore({ root }).put('a/b', await staged('1'));
    expect((await stat(root)).mode & 0o777).toBe(0o700);
    expect((await stat(join(root, 'a'))).mode & 0o777).toBe(0o700);
  });

  it('what is not an object (a folder, a link out of the store) is never listed as one', async () => {
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

describe('fault 17: a volume that takes no more', () => {
  const volume = smallVolume({ mebibytes: 1 });

  it.skipIf(!volume.available)(
    'a full one: 507, nothing half-written is left, and what is there is still read',
    async () => {
      await volume.use(async (root) => {
        const store = createLocalObjectStore({ root });
        const folder = await mkdtemp(join(tmpdir(), 'mds-staging-'));
        try {
          const small = join(folder, 'small');
          await writeFile(small, 'small');
          // From another file system, so the store has to copy: that is where the room runs out.
          await store.put('a/small', { path: small, bytes: 5, sha256: '' });
          const large = join(folder, 'large');
          await writeFile(small, 'second');
          await writeFile(large, Buffer.alloc(3 * 1024 * 1024, 7));
          const put = store.put('a/large', { path: large, bytes: 3 * 1024 * 1024, sha256: '' });
          await expect(put).rejects.toMatchObject({ code: 'insufficient_storage', status: 507 });
          expect(await readdir(join(root, '.incoming'))).toEqual([]);
          expect(await store.stat('a/large')).toBeNull();
          // A copy that is whole and finds its place taken by something else goes, too.
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
    },
  );

  it.skipIf(!volume.available)('a read-only one: 507 for puts, deletes and the probe, while reads go on', async () => {
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
