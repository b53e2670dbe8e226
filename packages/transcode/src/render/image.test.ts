import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { deflateSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { imir, irot, nclx, withProperties } from '../../test/heif-file.ts';
import {
  blue,
  type Color,
  furthest,
  green,
  quarterColors,
  quarters,
  red,
  solidGif,
  white,
  withPngChunk,
} from '../../test/pictures.ts';
import { scratch } from '../../test/scratch.ts';
import type { IdentifiedFile } from '../identified.ts';
import { identifyFile } from '../identify/identify.ts';
import { defaultLimits } from '../limits.ts';
import { planRenditions } from '../plan.ts';
import { defaultPresets, type Preset, parsePresets } from '../presets/presets.ts';
import { sharp } from '../vips.ts';
import { renderImage } from './image.ts';

const { file, outDir } = scratch();

async function render(bytes: Uint8Array | string, presets: readonly Preset[] = defaultPresets) {
  const path = file(bytes);
  const source = (await identifyFile(path, defaultLimits)) as IdentifiedFile;
  const folder = outDir();
  mkdirSync(folder);
  const result = await renderImage(path, planRenditions(source, presets), folder);
  const of = (name: string) => readFileSync(join(folder, name));
  return { source, result, of, folder };
}

const fixture = (name: string) => readFileSync(new URL(`../../test/fixtures/${name}`, import.meta.url));
const sample = (name: string) => readFileSync(new URL(`../../samples/${name}`, import.meta.url));

/** For each EXIF orientation: the colours of the four quarters of the upright picture. */
const upright: Record<number, readonly Color[]> = {
  1: [red, green, blue, white],
  2: [green, red, white, blue],
  3: [white, blue, green, red],
  4: [blue, white, red, green],
  5: [red, blue, green, white],
  6: [blue, red, white, green],
  7: [white, green, blue, red],
  8: [green, white, red, blue],
};

test.each([1, 2, 3, 4, 5, 6, 7, 8])('EXIF orientation %i is applied to every rendition, once', async (orientation) => {
  const jpeg = await quarters(400, 240).withMetadata({ orientation }).jpeg({ chromaSubsampling: '4:4:4' }).toBuffer();
  const { of, result } = await render(jpeg);
  const [width, height] = orientation >= 5 ? [240, 400] : [400, 240];
  for (const { name, extension, ...rendition } of result.renditions) {
    const bytes = of(`${name}.${extension}`);
    const metadata = await sharp(bytes).metadata();
    expect(metadata.orientation ?? 1).toBe(1);
    expect([rendition.state, metadata.width, metadata.height]).toEqual(
      name === 'thumb' ? ['ready', (width ?? 0) * 0.8, (height ?? 0) * 0.8] : ['ready', width, height],
    );
    expect(furthest(await quarterColors(bytes), upright[orientation] ?? []), `${name}.${extension}`).toBeLessThan(12);
  }
});

test.each([
  ['irot 1', [irot(1)], 8],
  ['irot 2', [irot(2)], 3],
  ['irot 3', [irot(3)], 6],
  ['imir 0', [imir(0)], 4],
  ['imir 1', [imir(1)], 2],
  ['irot 1 then imir 0', [irot(1), imir(0)], 5],
] as const)('HEIC and AVIF: %s is applied once by both decoders', async (_, properties, orientation) => {
  for (const name of ['heic.heic', 'avif.avif']) {
    const { source, of } = await render(withProperties(sample(name), properties));
    expect(source.orientation).toBe(orientation);
    expect(furthest(await quarterColors(of('large.webp')), upright[orientation] ?? []), name).toBeLessThan(12);
    expect((await sharp(of('large.webp')).metadata()).width).toBe(source.width);
  }
});

test('the orientation in a HEIF comes from its own properties, not from EXIF', async () => {
  const avif = await quarters(64, 32).withMetadata({ orientation: 6 }).avif({ quality: 80 }).toBuffer();
  const { source, of } = await render(avif);
  const { width, height } = await sharp(of('large.webp')).metadata();
  expect([width, height]).toEqual([source.width, source.height]);
});

test('a large image has six renditions of the right sizes and formats and a thumbhash', async () => {
  const { result, of, folder } = await render(await quarters(4000, 3000).jpeg().toBuffer());
  const made = result.renditions.map((r) => [
    `${r.name}.${r.extension}`,
    ...(r.state === 'ready' ? [r.width, r.height] : []),
  ]);
  expect(made).toEqual([
    ['thumb.webp', 320, 240],
    ['small.webp', 640, 480],
    ['medium.webp', 1280, 960],
    ['medium.avif', 1280, 960],
    ['medium.jpg', 1280, 960],
    ['large.webp', 2048, 1536],
  ]);
  for (const rendition of result.renditions) {
    if (rendition.state !== 'ready') throw new Error(rendition.reason);
    const bytes = of(`${rendition.name}.${rendition.extension}`);
    expect(bytes.length).toBe(rendition.bytes);
    expect(furthest(await quarterColors(bytes), [red, green, blue, white])).toBeLessThan(12);
  }
  expect(readdirSync(folder).sort()).toEqual(made.map(([name]) => name).sort());
  expect(Buffer.from(result.thumbhash ?? '', 'base64').length).toBeGreaterThan(4);
  expect(result.timings['total']).toBeGreaterThan(0);
});

test('a small image is not enlarged, and equal renditions are encoded once', async () => {
  const { result, of } = await render(await quarters(24, 24).png().toBuffer());
  expect(result.renditions.every((r) => r.state === 'ready' && r.width === 24 && r.height === 24)).toBe(true);
  expect(of('medium.webp').equals(of('large.webp'))).toBe(true);
});

test('no rendition reveals where and with which camera the photo was taken', async () => {
  const jpeg = await quarters(100, 100)
    .withExif({ IFD0: { Make: 'Spycam', Artist: 'Jane Doe' }, IFD3: { GPSLatitude: '48/1 51/1 30/1' } })
    .withXmp('<x:xmpmeta xmlns:x="adobe:ns:meta/"><secret/></x:xmpmeta>')
    .withIccProfile('p3')
    .jpeg()
    .toBuffer();
  expect(jpeg.includes('Spycam')).toBe(true);
  const { of, folder } = await render(jpeg);
  for (const name of readdirSync(folder)) {
    const { exif, xmp, icc, iptc } = await sharp(of(name)).metadata();
    expect([name, exif, xmp, icc, iptc]).toEqual([name, undefined, undefined, undefined, undefined]);
    expect(of(name).includes('Spycam'), name).toBe(false);
  }
});

/** Display P3 to sRGB by the matrices of CSS Color 4, for colours in both. */
function p3ToSrgb(color: Color): Color {
  const linear = color.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  const rows = [
    [1.2249401763, -0.2249404183, 0],
    [-0.0420569547, 1.0420571661, 0],
    [-0.0196375546, -0.0786360454, 1.0982735991],
  ];
  const encoded = rows.map((row) => {
    const v = Math.min(
      1,
      Math.max(
        0,
        row.reduce((sum, factor, index) => sum + factor * (linear[index] ?? 0), 0),
      ),
    );
    return Math.round(255 * (v <= 0.0031308 ? v * 12.92 : 1.055 * v ** (1 / 2.4) - 0.055));
  });
  return [encoded[0] ?? 0, encoded[1] ?? 0, encoded[2] ?? 0];
}

const p3Numbers: readonly Color[] = [
  [234, 51, 35],
  [120, 200, 80],
  [30, 60, 180],
  [128, 128, 128],
];
const p3Colors = p3Numbers.map(p3ToSrgb);

test('Display P3 is converted: by profile in HEIC', async () => {
  const { of, source } = await render(fixture('p3-profile.heic'));
  expect(source.icc).toBe(true);
  expect(furthest(await quarterColors(of('large.webp')), p3Colors)).toBeLessThan(8);
  expect(furthest(await quarterColors(of('medium.avif')), p3Colors)).toBeLessThan(8);
});

test('Display P3 is converted: by code points in HEIC and AVIF without a profile', async () => {
  const colors = p3Numbers;
  const avif = await quarters(64, 64, colors).avif({ quality: 95, chromaSubsampling: '4:4:4' }).toBuffer();
  const untagged = await render(avif);
  expect(furthest(await quarterColors(untagged.of('large.webp')), colors)).toBeLessThan(8);
  // libvips writes code points for sRGB; they are replaced with those of P3.
  const at = avif.indexOf('colrnclx');
  const tagged = at < 0 ? withProperties(avif, [nclx(12, 13)]) : Buffer.from(avif);
  if (at >= 0) tagged.writeUInt16BE(12, at + 8);
  expect(furthest(await quarterColors((await render(tagged)).of('large.webp')), p3Colors)).toBeLessThan(8);

  const heic = fixture('ten-bit.heic');
  expect(furthest(await quarterColors((await render(heic)).of('large.webp')), colors)).toBeLessThan(8);
  const p3Heic = await render(withProperties(heic, [nclx(12, 13)]));
  expect(furthest(await quarterColors(p3Heic.of('large.webp')), p3Colors)).toBeLessThan(8);
});

test('Display P3 is converted: by profile at 16 bits', async () => {
  const { icc } = await sharp(await quarters(8, 8).withIccProfile('p3').png().toBuffer()).metadata();
  const profile = Buffer.concat([Buffer.from('p3\0\0'), deflateSync(icc ?? Buffer.alloc(0))]);
  const deep = await quarters(64, 64, p3Numbers).toColourspace('rgb16').png().toBuffer();
  const { of, source } = await render(withPngChunk(deep, 'iCCP', profile));
  expect(source).toMatchObject({ bitDepth: 16, icc: true });
  expect(furthest(await quarterColors(of('large.webp')), p3Colors)).toBeLessThan(8);
});

test.each(['jpeg', 'png', 'webp', 'tiff'] as const)('Display P3 is converted: by profile in %s', async (format) => {
  const tagged = await quarters(64, 64, p3Colors).withIccProfile('p3')[format]({ quality: 100 }).toBuffer();
  expect(furthest(await quarterColors((await render(tagged)).of('large.webp')), p3Colors)).toBeLessThan(10);
});

test('16 bits, grey, palette, CMYK and Lab keep their colours', async () => {
  const soft: readonly Color[] = [
    [200, 60, 50],
    [90, 170, 80],
    [60, 80, 170],
    [230, 230, 230],
  ];
  const picture = () => quarters(80, 60, soft);
  const cases: Array<[string, Buffer, number]> = [
    ['16-bit PNG', await picture().toColourspace('rgb16').png().toBuffer(), 8],
    ['palette PNG', await picture().png({ palette: true }).toBuffer(), 8],
    [
      'CMYK JPEG with profile',
      await picture().toColourspace('cmyk').withIccProfile('cmyk').jpeg({ quality: 95 }).toBuffer(),
      45,
    ],
    [
      'CMYK TIFF',
      await picture().toColourspace('cmyk').withIccProfile('cmyk').tiff({ compression: 'lzw' }).toBuffer(),
      45,
    ],
    ['Lab TIFF', await picture().toColourspace('lab').tiff({ compression: 'lzw' }).toBuffer(), 8],
    ['16-bit TIFF', await picture().toColourspace('rgb16').tiff({ compression: 'lzw' }).toBuffer(), 8],
    [
      'bilevel TIFF',
      await quarters(80, 60, [white, [0, 0, 0], white, [0, 0, 0]])
        .toColourspace('b-w')
        .tiff({ bitdepth: 1, compression: 'none' })
        .toBuffer(),
      8,
    ],
  ];
  for (const [name, bytes, tolerance] of cases) {
    const expected = name.startsWith('bilevel') ? [white, [0, 0, 0], white, [0, 0, 0]] : soft;
    const { of } = await render(bytes);
    for (const output of ['large.webp', 'medium.avif', 'medium.jpg']) {
      const metadata = await sharp(of(output)).metadata();
      expect([name, output, metadata.depth], name).toEqual([name, output, 'uchar']);
      const rgb = await sharp(of(output)).toColourspace('srgb').png().toBuffer();
      expect(furthest(await quarterColors(rgb), expected), `${name}: ${output}`).toBeLessThan(tolerance);
    }
  }
});

test('a CMYK image without a profile does not become its negative', async () => {
  const plain = await quarters(80, 60, [white, [20, 20, 20], red, white])
    .toColourspace('cmyk')
    .jpeg()
    .toBuffer();
  const colors = await quarterColors((await render(plain)).of('large.webp'));
  expect(furthest([colors[0] ?? []], [white])).toBeLessThan(16);
  expect(Math.max(...(colors[1] ?? [255]))).toBeLessThan(80);
});

test('grey stays grey', async () => {
  const gray = await quarters(80, 60, [[0, 0, 0], [85, 85, 85], [170, 170, 170], white])
    .toColourspace('b-w')
    .png()
    .toBuffer();
  const { of } = await render(gray);
  const rgb = await sharp(of('large.webp')).toColourspace('srgb').png().toBuffer();
  expect(furthest(await quarterColors(rgb), [[0, 0, 0], [85, 85, 85], [170, 170, 170], white])).toBeLessThan(8);
});

test('transparency is kept in WebP and AVIF, and becomes white in JPEG', async () => {
  const rgba = Buffer.alloc(64 * 64 * 4);
  for (let at = 0; at < rgba.length; at += 4) rgba.set([255, 0, 0, (at / 4) % 64 < 32 ? 255 : 0], at);
  const png = await sharp(rgba, { raw: { width: 64, height: 64, channels: 4 } })
    .png()
    .toBuffer();
  for (const bytes of [png, fixture('alpha.heic')]) {
    const { of } = await render(bytes);
    for (const name of ['large.webp', 'medium.avif']) {
      const [left, right] = await quarterColors(of(name));
      expect(furthest([left ?? []], [[255, 0, 0, 255]]), name).toBeLessThan(12);
      expect(right?.[3], name).toBeLessThan(4);
    }
    expect(furthest(await quarterColors(of('medium.jpg')), [red, white, red, white])).toBeLessThan(16);
  }
});

test('an animated GIF keeps frames, delays and loops in WebP; JPEG has its first frame', async () => {
  const { of, result, source } = await render(solidGif(32, 6, 20, 3));
  expect(source).toMatchObject({ frames: 6, durationMs: 1_200 });
  const { pages, delay, loop } = await sharp(of('small.webp')).metadata();
  // GIF counts repetitions; WebP counts plays.
  expect({ pages, delay, loop }).toEqual({ pages: 6, delay: [200, 200, 200, 200, 200, 200], loop: 4 });
  expect(result.renditions.find(({ extension }) => extension === 'webp')).toMatchObject({
    frames: 6,
    durationMs: 1_200,
  });
  expect(result.renditions.find(({ extension }) => extension === 'avif')).toBeUndefined();
  expect(furthest(await quarterColors(of('medium.jpg')), [red])).toBeLessThan(12);
});

test('an animated WebP is shrunk frame by frame', async () => {
  const webp = await sharp(solidGif(400, 4, 50), { animated: true })
    .webp({ loop: 0 })
    .toBuffer();
  const { of } = await render(webp);
  const { pages, width, pageHeight, delay } = await sharp(of('thumb.webp'), { animated: true }).metadata();
  expect({ pages, width, pageHeight, delay }).toEqual({
    pages: 4,
    width: 320,
    pageHeight: 320,
    delay: [500, 500, 500, 500],
  });
  const second = await sharp(of('thumb.webp'), { page: 1 }).png().toBuffer();
  expect(furthest(await quarterColors(second), [blue, blue, blue, blue])).toBeLessThan(12);
});

test('a PNG rotated by EXIF and very long on one side still fits every box', async () => {
  const exif = Buffer.from('4d4d002a00000008000101120003000000010006000000000000', 'hex');
  const png = withPngChunk(await quarters(3000, 30).png().toBuffer(), 'eXIf', exif);
  const { of } = await render(png);
  const { width, height } = await sharp(of('thumb.webp')).metadata();
  expect([width, height]).toEqual([3, 320]);
});

test('PNG, lossless WebP and a box without height can be configured', async () => {
  const presets = parsePresets([
    { name: 'a', container: 'png', width: 50 },
    { name: 'b', container: 'webp', height: 20, lossless: true },
    { name: 'c', container: 'jpeg', background: '#ff0000', extension: 'jpeg', mozjpeg: true, progressive: true },
  ]);
  const { of } = await render(await quarters(100, 80).ensureAlpha(0).png().toBuffer(), presets);
  const sizes = await Promise.all(['a.png', 'b.webp', 'c.jpeg'].map((name) => sharp(of(name)).metadata()));
  expect(sizes.map(({ width, height }) => [width, height])).toEqual([
    [50, 40],
    [25, 20],
    [100, 80],
  ]);
  expect(furthest(await quarterColors(of('c.jpeg')), [red, red, red, red])).toBeLessThan(12);
});

test('a rendition that cannot be written fails alone and leaves no partial file', async () => {
  const path = file(await quarters(100, 80).png().toBuffer());
  const source = (await identifyFile(path, defaultLimits)) as IdentifiedFile;
  const folder = outDir();
  // A folder blocks the name of one of them.
  mkdirSync(join(folder, 'medium.jpg', 'in-the-way'), { recursive: true });
  const result = await renderImage(path, planRenditions(source, defaultPresets), folder);
  expect(result.renditions.filter(({ state }) => state === 'failed')).toMatchObject([
    { name: 'medium', extension: 'jpg', code: 'output_failed', reason: expect.stringContaining('medium.jpg') },
  ]);
  expect(readdirSync(folder).filter((name) => name.endsWith('.partial'))).toEqual([]);
  expect(existsSync(join(folder, 'medium.webp'))).toBe(true);
});

test('a file that was replaced after identification is not rendered', async () => {
  const path = file(await quarters(100, 80).png().toBuffer());
  const source = (await identifyFile(path, defaultLimits)) as IdentifiedFile;
  writeFileSync(path, 'not a picture any more');
  await expect(renderImage(path, planRenditions(source, defaultPresets), outDir())).rejects.toMatchObject({
    code: 'corrupt_media',
    retryable: false,
  });
});

test('invariant 5: an image rendition has the same bytes alone and beside others', async () => {
  const jpeg = await quarters(3000, 2200).jpeg().toBuffer();
  const whole = await render(jpeg);
  const bigger = await render(jpeg, [
    ...defaultPresets,
    ...parsePresets([{ name: 'huge', container: 'webp', width: 2600 }]),
  ]);
  for (const preset of defaultPresets.filter(({ source_kinds }) => source_kinds.includes('image'))) {
    const name = `${preset.name}.${preset.extension}`;
    const alone = await render(jpeg, [preset]);
    expect(alone.of(name).equals(whole.of(name)), name).toBe(true);
    expect(bigger.of(name).equals(whole.of(name)), name).toBe(true);
  }
  expect((await sharp(bigger.of('huge.webp')).metadata()).width).toBe(2600);
});

test.each([
  [1, 200],
  [2, 4001],
  [4001, 2],
  [1, 1],
])('a strip of %i x %i is rendered like any other image', async (width, height) => {
  const { result } = await render(
    await quarters(Math.max(2, width), Math.max(2, height)).resize(width, height, { fit: 'fill' }).png().toBuffer(),
  );
  expect(result.renditions.map(({ state }) => state)).toEqual(Array(6).fill('ready'));
  expect(result.thumbhash).not.toBeNull();
});

test('fault 22: a cut PNG is not completed with old memory contents', async () => {
  const png = await quarters(900, 700).png({ compressionLevel: 0 }).toBuffer();
  await expect(render(png.subarray(0, png.length >> 1))).rejects.toMatchObject({ code: 'corrupt_media' });
});
