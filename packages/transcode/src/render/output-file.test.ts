import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { quarters } from '../../test/pictures.ts';
import { scratch } from '../../test/scratch.ts';
import { writeVerified, writeVerifiedImage, writeVerifiedText } from './output-file.ts';

const { outDir } = scratch();

function folder(): string {
  const path = outDir();
  mkdirSync(path);
  return path;
}

test('invariant 2: a file gets its name only after it was read back', async () => {
  const out = folder();
  const place = join(out, 'a.txt');
  const seen = await writeVerified(
    place,
    (temporary) => writeFile(temporary, 'whole'),
    (temporary) => [existsSync(place), readFileSync(temporary, 'utf8')],
  );
  expect(seen).toEqual([false, 'whole']);
  expect(readdirSync(out)).toEqual(['a.txt']);
});

test('invariant 2: a file that cannot be written or is wrong leaves nothing behind', async () => {
  const out = folder();
  const place = join(out, 'a');
  const halfWritten = async (temporary: string) => {
    writeFileSync(temporary, 'half');
    throw new Error('the disk is full');
  };
  await expect(writeVerified(place, halfWritten, () => null)).rejects.toThrow('the disk is full');
  await expect(writeVerifiedImage(place, { width: 8, height: 8 }, (t) => writeFile(t, 'no picture'))).rejects.toThrow(
    'the encoded file looks like plain text',
  );
  const small = (temporary: string) => quarters(8, 6).png().toFile(temporary);
  await expect(writeVerifiedImage(place, { width: 8, height: 8 }, small)).rejects.toThrow(
    'the encoded file is 8 x 6 instead of 8 x 8',
  );
  const png = await quarters(64, 64).png().toBuffer();
  const cut = (temporary: string) => writeFile(temporary, png.subarray(0, png.length - 20));
  await expect(writeVerifiedImage(place, { width: 64, height: 64 }, cut)).rejects.toThrow(
    'the encoded file is incomplete',
  );
  expect(readdirSync(out)).toEqual([]);
});

test('a text is reported with its size in bytes', async () => {
  const facts = await writeVerifiedText(join(folder(), 'a.vtt'), 'WEBVTT – ü');
  expect(facts).toEqual({ bytes: 13, width: 0, height: 0, frames: 1, durationMs: null });
});
