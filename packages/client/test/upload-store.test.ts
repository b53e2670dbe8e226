import { mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { createFileUploadStore, createWebUploadStore, type UploadStore, type WebStorage } from '../src/index.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mds-store-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

function webStorage(): WebStorage {
  const values = new Map<string, string>();
  return {
    getItem: (key) => values.get(key) ?? null,
    setItem: (key, value) => void values.set(key, value),
    removeItem: (key) => void values.delete(key),
  };
}

it.each<[string, () => UploadStore]>([
  ['a folder', () => createFileUploadStore(join(folder, 'not', 'there', 'yet'))],
  ['localStorage', () => createWebUploadStore(webStorage())],
])('%s keeps addresses apart, whatever their keys contain', async (_, open) => {
  const store = open();
  const keys = ['film', '../../film', 'a/b\0c', 'ü'.repeat(5000)];
  for (const key of keys) expect(await store.get(key)).toBe(null);
  for (const [n, key] of keys.entries()) await store.set(key, `url ${n}`);
  for (const [n, key] of keys.entries()) expect(await store.get(key)).toBe(`url ${n}`);
  await store.set('film', 'another');
  await store.delete('../../film');
  await store.delete('../../film');
  expect([await store.get('film'), await store.get('../../film')]).toEqual(['another', null]);
});

it('concurrent uploads and processes do not overwrite entries of each other', async () => {
  const stores = Array.from({ length: 8 }, () => createFileUploadStore(folder));
  await Promise.all(
    stores.flatMap((store, s) => Array.from({ length: 8 }, (_, n) => store.set(`${s} ${n}`, `url ${s} ${n}`))),
  );
  for (const [s, store] of stores.entries()) expect(await store.get(`${7 - s} 3`)).toBe(`url ${7 - s} 3`);
  expect(await readdir(folder)).toHaveLength(64);
});

it('a damaged entry counts as missing', async () => {
  const store = createFileUploadStore(folder);
  await store.set('film', 'url');
  for (const text of ['', '{"key":', 'null', '{"key":"film","url":7}']) {
    for (const name of await readdir(folder)) await writeFile(join(folder, name), text);
    expect(await store.get('film')).toBe(null);
  }
});

it('entries older than two weeks are removed, and nothing else', async () => {
  const store = createFileUploadStore(folder);
  await store.set('old', 'url');
  await writeFile(join(folder, 'letter.json'), 'of somebody else');
  for (const name of await readdir(folder)) await utimes(join(folder, name), 0, Date.now() / 1000 - 15 * 86_400);
  await store.set('recent', 'url');
  await store.set('new', 'url');
  expect([await store.get('old'), await store.get('recent')]).toEqual([null, 'url']);
  expect(await readdir(folder)).toContain('letter.json');
});
