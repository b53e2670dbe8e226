import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { createDiskFolder } from './disk-folder.ts';
import { createFolderIndex, type FolderEntry } from './folder-index.ts';

function startIndex(maxBytes: number, inMemory: readonly string[] = []) {
  const [evicted, spared]: string[][] = [[], []];
  const index = createFolderIndex({
    maxBytes,
    isInMemory: (sha256) => inMemory.includes(sha256),
    onEvict: (key) => evicted?.push(key),
    onSpare: (key) => spared?.push(key),
  });
  const add = (key: string, bytes = 1): FolderEntry => {
    const entry = { mediaId: 'm', sha256: key, bytes: 0, touchedMs: 0 };
    index.use(key, entry);
    expect(index.grow(key, entry, bytes)).toBe(true);
    return entry;
  };
  return { index, add, evicted, spared };
}

it('the cache folder evicts the least recently used, and objects in memory last', () => {
  const { index, add, evicted, spared } = startIndex(4, ['a', 'c']);
  const [, b] = ['a', 'b', 'c', 'd'].map((key) => add(key));
  index.use('b', b as FolderEntry);
  add('e', 2);
  expect([evicted, spared]).toEqual([
    ['d', 'b'],
    ['a', 'c'],
  ]);
  add('f', 4);
  expect([evicted, index.bytes, index.size, index.evictions]).toEqual([['d', 'b', 'e', 'a', 'c'], 4, 1, 5]);
});

it('a cache folder of 200,000 files evicts one without a walk over all', () => {
  const { index, add, evicted } = startIndex(200_000);
  for (let n = 0; n < 200_000; n += 1) add(String(n));
  const began = performance.now();
  for (let n = 0; n < 4_000; n += 1) add(`next ${n}`);
  // Each walk over all of them would take milliseconds.
  expect(performance.now() - began).toBeLessThan(8_000);
  expect([index.size, evicted?.length, evicted?.at(-1)]).toEqual([200_000, 4_000, '3999']);
});

it('a file can be stored just as the last other one of its media object is removed', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'mds-folder-'));
  const warnings: unknown[] = [];
  const logger = { info: () => undefined, warn: (...said: unknown[]) => void warnings.push(said) };
  const folder = createDiskFolder({ dir, maxBytes: 1e6, isInMemory: () => false, onGone: () => undefined, logger });
  onTestFinished(async () => {
    await folder.stop();
    await rm(dir, { recursive: true, force: true });
  });
  for (let n = 0; n < 500; n += 1) {
    const sha256 = n.toString(16).padStart(64, '0');
    const kept = await folder.open('med_1', { key: sha256, sha256, bytes: 10, pieces: null });
    await kept?.file.close();
    expect([n, kept?.isPlaced, warnings]).toEqual([n, true, []]);
    folder.drop('med_1', sha256);
  }
});
