import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { imir, irot, nclx, withProperties } from '../../test/heif-file.ts';
import { flatPng, pngChunk, quarters, solidGif, withPngChunk } from '../../test/pictures.ts';
import { scratch } from '../../test/scratch.ts';
import { formats as all } from '../formats.ts';
import { parseIdentified } from '../identified.ts';
import { defaultLimits } from '../limits.ts';
import { samplePath } from '../prove.ts';
import { sharp } from '../vips.ts';
import { identifyFile } from './identify.ts';

const { file } = scratch();
const formats = all.filter(({ kind }) => kind === 'image');
const identify = (bytes: Uint8Array | string, name?: string, limits = {}) =>
  identifyFile(file(bytes, name), { ...defaultLimits, ...limits });
const rejection = (code: string, message: RegExp) => ({ code, message: expect.stringMatching(message) });
const sample = (id: string) => {
  const format = formats.find((candidate) => candidate.id === id);
  if (!format) throw new Error(id);
  return readFileSync(samplePath(format));
};

test.each(formats.map(({ id }) => id))('%s is recognized by its bytes, whatever its name', async (id) => {
  const identified = await identify(sample(id), 'holiday.mp4');
  expect(identified).toMatchObject({ kind: 'image', format: id, frames: 1, durationMs: null, warnings: [] });
  expect(identified.width * identified.height).toBeGreaterThan(0);
});

test('a refusal lists all accepted formats by kind', async () => {
  await expect(identify('%PDF-1.7\n')).rejects.toMatchObject(
    rejection(
      'unsupported_format',
      /images as JPEG, .* and SVG; videos as MP4, MOV, WebM, Matroska, MPEG-TS, AVI and Ogg \(VP8\); audio as M4A, WebM, Matroska, Ogg, Opus, MP3, WAV, FLAC and AAC\.$/,
    ),
  );
});

test('an empty file is refused as empty', async () => {
  await expect(identify('', 'photo.jpg')).rejects.toMatchObject(rejection('empty_file', /empty/));
});

test.each([
  ['plain text', /plain text/, 'Dear diary, today I uploaded a picture.'],
  ['HTML', /HTML page/, '\n<!doctype html><html><body>404</body></html>'],
  ['PDF', /PDF document/, '%PDF-1.7\n%âãÏÓ\n'],
  ['ZIP', /ZIP archive/, 'PK\x03\x04\x14\x00\x00\x00'],
  ['XML', /XML document \(<rss>\)/, '<?xml version="1.0"?><rss version="2.0"/>'],
  ['JSON', /JSON/, '{"error":"not found"}'],
  ['a DVD', /MPEG program stream/, '\0\0\x01\xba\x44\0\x04'],
  ['a script of ffmpeg', /names other files/, 'ffconcat version 1.0\nfile a.mp4\n'],
  ['JPEG 2000', /JPEG 2000/, '\0\0\0\x0cjP  \r\n\x87\n'],
  ['a program', /a program/, '\x7fELF\x02\x01\x01'],
  ['noise', /unknown kind/, '\x00\x01\x02\x03\x04\x05'],
])('%s named .jpg is recognized and refused, with a list of accepted formats', async (_, message, bytes) => {
  const rejected = expect(identify(Buffer.from(bytes, 'latin1'), 'photo.jpg')).rejects;
  await rejected.toMatchObject({ code: 'unsupported_format', message: expect.stringMatching(message) });
  await expect(identify(Buffer.from(bytes, 'latin1'), 'photo.jpg')).rejects.toThrow(/JPEG, PNG, WebP/);
});

test('a gzip-compressed SVG is refused', async () => {
  await expect(identify(gzipSync(sample('svg')), 'icon.svgz')).rejects.toMatchObject({ code: 'unsupported_format' });
});

test('a camera raw file, which is also a TIFF, is not mistaken for its preview', async () => {
  const tiff = await quarters(8, 8).tiff({ compression: 'none' }).toBuffer();
  const dng = Buffer.from(tiff);
  const directory = dng.readUInt32LE(4);
  // Replaces the last tag with DNGVersion.
  dng.writeUInt16LE(50_706, directory + 2 + (dng.readUInt16LE(directory) - 1) * 12);
  await expect(identify(dng)).rejects.toMatchObject(rejection('unsupported_format', /camera raw/));
});

test.each([1, 2, 3, 4, 5, 6, 7, 8])('EXIF orientation %i: the size is as displayed', async (orientation) => {
  for (const encode of ['jpeg', 'png', 'webp', 'tiff'] as const) {
    const bytes = await quarters(40, 20).withMetadata({ orientation })[encode]().toBuffer();
    const expected = orientation >= 5 ? { width: 20, height: 40 } : { width: 40, height: 20 };
    expect(await identify(bytes), encode).toMatchObject({ ...expected, orientation });
  }
});

test('turned and mirrored HEIC images have their size as displayed', async () => {
  const heic = sample('heic');
  expect(await identify(withProperties(heic, [irot(3)]))).toMatchObject({ width: 48, height: 64, orientation: 6 });
  expect(await identify(withProperties(heic, [irot(1)]))).toMatchObject({ width: 48, height: 64, orientation: 8 });
  expect(await identify(withProperties(heic, [irot(2)]))).toMatchObject({ width: 64, height: 48, orientation: 3 });
  expect(await identify(withProperties(heic, [imir(1)]))).toMatchObject({ width: 64, height: 48, orientation: 2 });
  expect(await identify(withProperties(heic, [nclx(12, 13)]))).toMatchObject({ colorSpace: 'p3' });
});

test('bit depth, colour space and transparency are reported', async () => {
  const gray16 = await sharp(Buffer.alloc(200), { raw: { width: 10, height: 10, channels: 1 } })
    .toColourspace('grey16')
    .png()
    .toBuffer();
  expect(await identify(gray16)).toMatchObject({ bitDepth: 16, colorSpace: 'gray', hasAlpha: false });
  expect(await identify(await quarters(10, 10).toColourspace('cmyk').jpeg().toBuffer())).toMatchObject({
    colorSpace: 'cmyk',
  });
  expect(await identify(await quarters(10, 10).ensureAlpha(0.5).webp().toBuffer())).toMatchObject({ hasAlpha: true });
  expect(await identify(await quarters(10, 10).withIccProfile('p3').png().toBuffer())).toMatchObject({ icc: true });
});

test('fault 22: a bit depth of 0 counts as unknown in every format', async () => {
  const heic = Buffer.from(sample('heic'));
  const pixi = heic.indexOf('pixi');
  heic.fill(0, pixi + 9, pixi + 12);
  const tiff = await quarters(8, 8).tiff({ compression: 'none' }).toBuffer();
  const directory = tiff.readUInt32LE(4);
  for (let entry = directory + 2; ; entry += 12) {
    if (tiff.readUInt16LE(entry) !== 258) continue;
    // BitsPerSample without a value.
    tiff.writeUInt32LE(1, entry + 4);
    tiff.writeUInt32LE(0, entry + 8);
    break;
  }
  const png = flatPng(8, 8);
  png[24] = 0;
  for (const bytes of [heic, tiff, png]) {
    const outcome = await identify(bytes).catch((error: unknown) => error);
    if (outcome instanceof Error) expect(outcome).toMatchObject({ code: 'corrupt_media' });
    else expect(parseIdentified(outcome).bitDepth).toBeGreaterThan(0);
  }
  expect(parseIdentified(await identify(heic))).toMatchObject({ format: 'heic', bitDepth: 8 });
});

test('frames and durations of animations are counted as browsers play them', async () => {
  expect(await identify(solidGif(4, 7, 25))).toMatchObject({ frames: 7, durationMs: 1_750 });
  expect(await identify(solidGif(4, 7, 0))).toMatchObject({ frames: 7, durationMs: 700 });
  const webp = await sharp(solidGif(4, 5, 30), { animated: true })
    .webp({ loop: 2 })
    .toBuffer();
  expect(await identify(webp)).toMatchObject({ format: 'webp', frames: 5, durationMs: 1_500 });
});

test('pages of a TIFF and frames of an animated PNG that are not shown give a warning', async () => {
  const pages = await sharp(solidGif(4, 3), { animated: true }).tiff().toBuffer();
  expect((await identify(pages)).warnings).toEqual([expect.stringMatching(/3 pages/)]);
  const apng = withPngChunk(await quarters(8, 8).png().toBuffer(), 'acTL', Buffer.from([0, 0, 0, 9, 0, 0, 0, 0]));
  expect((await identify(apng)).warnings).toEqual([expect.stringMatching(/first frame/)]);
});

test('fault 6: a flat PNG of 17,000 x 17,000 is refused from its header', async () => {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(17_000, 0);
  header.writeUInt32BE(17_000, 4);
  header[8] = 8;
  // It has no image data, so only the header can have been read.
  const bomb = Buffer.concat([Buffer.from('89504e470d0a1a0a', 'hex'), pngChunk('IHDR', header)]);
  await expect(identify(bomb)).rejects.toMatchObject(rejection('too_many_pixels', /17000 x 17000/));
  expect(await identify(flatPng(300, 300))).toMatchObject({ width: 300 });
});

test('fault 7: an animation of thousands of frames is refused for its frames', async () => {
  await expect(identify(solidGif(2, 5_000))).rejects.toMatchObject(rejection('too_many_frames', /1000 frames/));
  const webp = await sharp(solidGif(2, 40), { animated: true }).webp().toBuffer();
  await expect(identify(webp, 'x.webp', { maxFrames: 39 })).rejects.toMatchObject({ code: 'too_many_frames' });
});

test('fault 7: an animation is refused for its pixels summed over all frames', async () => {
  const gif = solidGif(100, 60);
  await expect(identify(gif, 'x.gif', { maxPixels: 599_999 })).rejects.toMatchObject({ code: 'too_many_pixels' });
  expect(await identify(gif, 'x.gif', { maxPixels: 600_000 })).toMatchObject({ frames: 60 });
});

test('an animation that lasts for days is refused', async () => {
  await expect(identify(solidGif(2, 30, 60_000))).rejects.toMatchObject({ code: 'too_long' });
});
