import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdtemp, readdir, readlink, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { seededRandom } from '../../../../test/support/seeded-random.ts';
import { createReadingThreads, type ReadingThreads } from './reading-threads.ts';

let folder: string;
let threads: ReadingThreads;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mds-reading-'));
  threads = createReadingThreads();
});
afterEach(async () => {
  await threads.stop();
  await rm(folder, { recursive: true });
});

async function file(name: string, bytes: Buffer): Promise<{ path: string; bytes: Buffer; sha256: string }> {
  const path = join(folder, name);
  await writeFile(path, bytes);
  return { path, bytes, sha256: createHash('sha256').update(bytes).digest('hex') };
}

describe('createReadingThreads', () => {
  it('returns the right bytes and SHA-256 of each of many files read at once', async () => {
    const random = seededRandom(7);
    const files = await Promise.all(
      Array.from({ length: 200 }, (_, index) =>
        file(`${index}`, Buffer.alloc(Math.floor(random() * 100_000), `file ${index}`)),
      ),
    );
    const read = await Promise.all(files.map(({ path, bytes }) => threads.read(path, bytes.length)));
    for (const [index, found] of read.entries()) {
      const { bytes, sha256 } = files[index] as (typeof files)[number];
      expect(found.bytes.equals(bytes)).toBe(true);
      expect(found).toMatchObject({ sha256, size: bytes.length });
    }
  });

  it('reports a file that is too long or too short, without reading all of it', async () => {
    const { path } = await file('long', Buffer.alloc(1_000_000, 1));
    const long = await threads.read(path, 1_000);
    expect([long.size, long.bytes.length]).toEqual([1_000_000, 1_001]);
    const short = await threads.read(path, 2_000_000);
    expect([short.size, short.bytes.length]).toEqual([1_000_000, 1_000_000]);
  });

  it('reports the system error code of an unreadable file, and continues', async () => {
    const sound = await file('sound', Buffer.from('sound'));
    const [missing, aFolder, found] = await Promise.allSettled([
      threads.read(join(folder, 'none'), 5),
      threads.read(folder, 5),
      threads.read(sound.path, 5),
    ]);
    expect(missing).toMatchObject({ status: 'rejected', reason: { code: 'ENOENT' } });
    expect(aFolder).toMatchObject({ status: 'rejected', reason: { code: 'EISDIR' } });
    expect(found).toMatchObject({ status: 'fulfilled', value: { sha256: sound.sha256 } });
  });

  it('keeps no file open', async () => {
    const files = await Promise.all(Array.from({ length: 50 }, (_, index) => file(`${index}`, Buffer.from('x'))));
    await Promise.allSettled([...files.map(({ path }) => threads.read(path, 1)), threads.read(folder, 1)]);
    const open = await Promise.all(
      (await readdir('/proc/self/fd')).map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')),
    );
    expect(open.filter((path) => path.startsWith(folder))).toEqual([]);
  });

  it('reads other files while one blocks its thread, and stops after reads in progress', async () => {
    // Opening a pipe without a writer blocks, like a file on a disk that does not respond.
    const pipe = join(folder, 'pipe');
    execFileSync('mkfifo', [pipe]);
    const sound = await file('sound', Buffer.from('sound'));
    const stuck = threads.read(pipe, 4);
    await delay(50);
    await expect(threads.read(sound.path, 5)).resolves.toMatchObject({ sha256: sound.sha256 });
    const stopping = threads.stop();
    await expect(threads.read(sound.path, 5)).rejects.toThrow('stopped');
    createWriteStream(pipe).end('late');
    await expect(stuck).resolves.toMatchObject({ bytes: Buffer.from('late') });
    await stopping;
  });
});
