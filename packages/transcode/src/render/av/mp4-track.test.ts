import { readFileSync } from 'node:fs';
import { beforeAll, expect, test } from 'vitest';
import { scratch } from '../../../test/scratch.ts';
import { clipMaker, fastVideo, picture, programsForTests, tone } from '../../../test/video-clips.ts';
import { BoxError } from './mp4-boxes.ts';
import { readMp4Track } from './mp4-track.ts';

const files = scratch();
let clips: Buffer[];
beforeAll(async () => {
  const clip = clipMaker(await programsForTests(), files.folder);
  const video = clip('video.mp4', ...picture('64x36', 1), ...fastVideo, '-bf', '2');
  const audio = clip('audio.mp4', ...tone(1), '-c:a', 'aac');
  clips = [readFileSync(video), readFileSync(audio)];
});

/** The error from reading it, or null. */
async function problemOf(bytes: Buffer): Promise<unknown> {
  return readMp4Track(files.file(bytes, 'odd.mp4')).then(
    () => null,
    (error: unknown) => error,
  );
}

test('an index with any changed byte is read or refused with a sentence, never a crash', async () => {
  let refused = 0;
  for (const clip of clips) {
    for (let at = clip.indexOf('moov') - 4; at < clip.length; at += 1) {
      for (const value of [0, 0xff]) {
        const odd = Buffer.from(clip);
        odd[at] = value;
        const problem = await problemOf(odd);
        if (problem === null) continue;
        refused += 1;
        expect(problem, `byte ${at} is ${value}`).toBeInstanceOf(BoxError);
        expect(String(problem)).toMatch(/^BoxError: [A-Z].*\.$/);
      }
    }
  }
  expect(refused).toBeGreaterThan(200);
});

test('an index that is cut anywhere is refused with a sentence', async () => {
  for (const clip of clips) {
    for (let end = clip.indexOf('moov') - 4; end < clip.length; end += 7) {
      expect(await problemOf(clip.subarray(0, end)), `cut at ${end}`).toBeInstanceOf(BoxError);
    }
  }
});

test('a table that claims billions of samples allocates no memory for them', async () => {
  for (const clip of clips) {
    for (const equalSize of [0, 1]) {
      const odd = Buffer.from(clip);
      const stsz = odd.indexOf('stsz');
      odd.writeUInt32BE(equalSize, stsz + 8);
      odd.writeUInt32BE(0xfffffff0, stsz + 12);
      expect(await problemOf(odd)).toMatchObject({ message: 'The table of sizes has an impossible length.' });
    }
  }
});
