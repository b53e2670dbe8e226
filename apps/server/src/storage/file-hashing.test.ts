import { createHash, randomBytes } from 'node:crypto';
import { appendFile, mkdtemp, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { createFileHashing, type FileHashing } from './file-hashing.ts';

const MIB = 1024 * 1024;
const sha256 = (...parts: Buffer[]) =>
  parts.reduce((hash, part) => hash.update(part), createHash('sha256')).digest('hex');

let folder: string;
let path: string;
let hashing: FileHashing;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mds-hashing-'));
  path = join(folder, 'file');
  hashing = createFileHashing();
});
afterEach(async () => {
  await hashing.stop();
  await rm(folder, { recursive: true, force: true });
});

it('returns the hash of a file that grew while it was read, any number of times', async () => {
  const content = randomBytes(40 * MIB + 5);
  const hash = hashing.of(path);
  for (let at = 0; at < content.length; at += 5 * MIB) {
    await appendFile(path, content.subarray(at, at + 5 * MIB));
    hash.follow(Math.min(at + 5 * MIB, content.length));
  }
  expect(await hash.digest(content.length)).toBe(sha256(content));
  expect(await hash.digest(content.length)).toBe(sha256(content));
  expect(await hash.digest(1_000)).toBe(sha256(content.subarray(0, 1_000)));
});

it('does not hash bytes that were truncated, however far they had been read', async () => {
  const [kept, lost, instead] = [randomBytes(5 * MIB), randomBytes(20 * MIB), randomBytes(30 * MIB)];
  for (let turn = 0; turn < 20; turn++) {
    const hash = hashing.of(path);
    await writeFile(path, Buffer.concat([kept, lost]));
    hash.follow(kept.length + lost.length);
    // Each turn truncates at another stage of the reading.
    await new Promise((resolve) => setTimeout(resolve, turn));
    hash.forget();
    // A disk may be slow to truncate.
    await new Promise((resolve) => setTimeout(resolve, 60));
    await truncate(path, kept.length);
    await appendFile(path, instead);
    expect(await hash.digest(kept.length + instead.length)).toBe(sha256(kept, instead));
  }
});

it('alternates between files, so that a small one does not wait for a large one', async () => {
  const large = randomBytes(192 * MIB);
  const small = randomBytes(100_000);
  await writeFile(path, large);
  await writeFile(`${path}-small`, small);
  const done: string[] = [];
  const ofLarge = hashing
    .of(path)
    .digest(large.length)
    .then((hash) => done.push(hash));
  const ofSmall = hashing
    .of(`${path}-small`)
    .digest(small.length)
    .then((hash) => done.push(hash));
  await Promise.all([ofLarge, ofSmall]);
  expect(done).toEqual([sha256(small), sha256(large)]);
});

it('reports a file that is too short or missing, and continues with others', async () => {
  await writeFile(path, 'five!');
  await expect(hashing.of(path).digest(6)).rejects.toThrow('shorter');
  await expect(hashing.of(`${path}-not`).digest(1)).rejects.toMatchObject({ code: 'ENOENT' });
  expect(await hashing.of(path).digest(5)).toBe(sha256(Buffer.from('five!')));
});

it('rejects waiting calls when it stops', async () => {
  await writeFile(path, randomBytes(64 * MIB));
  const hash = hashing.of(path).digest(64 * MIB);
  const outcome = expect(hash).rejects.toThrow('ended');
  await hashing.stop();
  await outcome;
});
