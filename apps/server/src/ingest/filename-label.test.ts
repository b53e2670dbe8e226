import { readdir } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { noisePng } from '../../test/support/pictures.ts';
import { originalKey } from '../base/object-key.ts';
import { ingestFixture, input, sha256 } from './ingest.fixture.ts';

const fixture = ingestFixture();
const { makeIngest, objects } = fixture;

describe('fault 21: file names', () => {
  it.each([
    ['../../etc/passwd', 'passwd'],
    ['..\\..\\windows\\system32\\con', 'con'],
    ['/', null],
    ['..', null],
    ['con', 'con'],
    ['a\0b.png', 'ab.png'],
    ['\u202egnp.exe', 'gnp.exe'],
    ['new\r\nline.png', 'newline.png'],
    ['   ', null],
    ['Ærøskøbing ☃ 写真.png', 'Ærøskøbing ☃ 写真.png'],
    ['%2e%2e%2fpasswd', '%2e%2e%2fpasswd'],

    ['\ud800half.png', 'half.png'],
  ])('%j becomes a label at most, never a part of a path', async (filename, label) => {
    const picture = noisePng(filename);
    const { media } = await makeIngest().ingest(input(picture, { filename }));
    expect(media.filename).toBe(label);
    expect(await objects()).toEqual([originalKey(sha256(picture))]);
    expect((await readdir(fixture.root)).sort()).toEqual(['objects', 'staging']);
  });

  it('4 KB of emoji are cut between characters, so the label stays readable', async () => {
    const { media } = await makeIngest().ingest(input(noisePng('a'), { filename: '\u{1f600}'.repeat(1024) }));
    expect(media.filename).toBe('\u{1f600}'.repeat(255));
  });
});
