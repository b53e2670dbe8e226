import { randomBytes } from 'node:crypto';
import { type FileHandle, mkdtemp, open, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { createPieceWriting } from './piece-writing.ts';

const KIB = 1024;

let folder: string;
let file: FileHandle;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mds-pieces-'));
  file = await open(join(folder, 'file'), 'w+');
});
afterEach(async () => {
  await file.close().catch(() => undefined);
  await rm(folder, { recursive: true, force: true });
});

it('writes pieces of all sizes in order and reports every byte once', async () => {
  await file.write(Buffer.from('before'), 0, 6, 0);
  const pieces = Array.from({ length: 900 }, (_, n) => randomBytes(1 + ((n * 7_919) % 70_000)));
  let reported = 0;
  const writer = createPieceWriting().begin(file, 6, (bytes) => {
    reported += bytes;
  });
  for (const piece of pieces) await writer.take(piece);
  await writer.finish();
  await writer.close();
  const written = Buffer.concat([Buffer.from('before'), ...pieces]);
  expect((await readFile(join(folder, 'file'))).equals(written)).toBe(true);
  expect(reported).toBe(written.length - 6);
});

it('lets a sender get ahead of the disk by no more than its share of the bound', async () => {
  const writing = createPieceWriting({ aheadBytes: 256 * KIB });
  const others = [1, 2, 3].map(() => writing.begin(file, 0, () => undefined));
  let [taken, reported, most] = [0, 0, 0];
  const writer = writing.begin(file, 0, (bytes) => {
    reported += bytes;
  });
  for (let n = 0; n < 400; n++) {
    taken += 16 * KIB;
    await writer.take(Buffer.alloc(16 * KIB));
    most = Math.max(most, taken - reported);
  }
  await writer.close();
  for (const other of others) await other.close();
  // One share waits while another one is written.
  expect(most).toBeLessThanOrEqual(2 * 64 * KIB);
  expect(most).toBeGreaterThan(16 * KIB);
});

it('reports a failed write at the next piece and at the end, and stops writing', async () => {
  const reading = await open(join(folder, 'file'), 'r');
  let reported = 0;
  const writer = createPieceWriting().begin(reading, 0, (bytes) => {
    reported += bytes;
  });
  await writer.take(Buffer.from('one'));
  await expect(writer.finish()).rejects.toMatchObject({ code: 'EBADF' });
  await expect(writer.take(Buffer.from('two'))).rejects.toMatchObject({ code: 'EBADF' });
  await writer.close();
  await writer.close();
  await reading.close();
  expect([reported, (await file.stat()).size]).toEqual([0, 0]);
});
