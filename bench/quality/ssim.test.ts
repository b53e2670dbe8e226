import sharp from 'sharp';
import { describe, expect, test } from 'vitest';
import { planesOf } from './planes.ts';
import { type Plane, ssim } from './ssim.ts';

/** A picture with edges, a slope and texture. */
function sample(change: (value: number, x: number, y: number) => number = (value) => value): Plane {
  const [width, height] = [96, 64];
  const data = Float32Array.from({ length: width * height }, (_, i) => {
    const x = i % width;
    const y = Math.floor(i / width);
    const value = 40 + x + (x > 48 ? 60 : 0) + 20 * Math.sin(x * 0.9) * Math.cos(y * 0.7);
    return Math.min(255, Math.max(0, change(value, x, y)));
  });
  return { width, height, data };
}

const noise = (x: number, y: number) => ((x * 73 + y * 151 + ((x * y) % 7) * 31) % 17) / 8.5 - 1;

describe('SSIM', () => {
  test('a picture equals itself', () => {
    expect(ssim(sample(), sample())).toBeCloseTo(1, 12);
  });

  test('the order of the two pictures does not matter', () => {
    const noisy = sample((value, x, y) => value + 12 * noise(x, y));
    expect(ssim(noisy, sample())).toBeCloseTo(ssim(sample(), noisy), 12);
  });

  test('more damage gives less similarity', () => {
    const damaged = [2, 6, 14, 40].map((amount) =>
      ssim(
        sample((value, x, y) => value + amount * noise(x, y)),
        sample(),
      ),
    );
    expect(damaged).toEqual(damaged.toSorted((a, b) => b - a));
    expect(damaged[0]).toBeLessThan(1);
    expect(damaged[3]).toBeLessThan(0.7);
  });

  test('a shift of brightness harms less than noise of the same squared error', () => {
    const brighter = ssim(
      sample((value) => value + 10),
      sample(),
    );
    const noisy = ssim(
      sample((value, x, y) => value + (noise(x, y) > 0 ? 10 : -10)),
      sample(),
    );
    expect(brighter).toBeGreaterThan(0.95);
    expect(noisy).toBeLessThan(brighter);
  });

  test('flat pictures of different brightness follow the formula of the luminance term', () => {
    const flat = (value: number): Plane => ({ width: 16, height: 16, data: new Float32Array(256).fill(value) });
    const c1 = (0.01 * 255) ** 2;
    expect(ssim(flat(100), flat(120))).toBeCloseTo((2 * 100 * 120 + c1) / (100 ** 2 + 120 ** 2 + c1), 6);
  });

  test('higher JPEG quality gives a higher score', async () => {
    const { data, width, height } = sample((value, x, y) => value + 8 * noise(x, y));
    const pixels = Buffer.from(Uint8Array.from(data));
    const lossless = await sharp(pixels, { raw: { width, height, channels: 1 } })
      .png()
      .toBuffer();
    const { luma: reference } = await planesOf(lossless, '#ffffff');
    const scores = [];
    for (const quality of [95, 70, 30, 5]) {
      const jpeg = await sharp(pixels, { raw: { width, height, channels: 1 } })
        .jpeg({ quality })
        .toBuffer();
      scores.push(ssim((await planesOf(jpeg, '#ffffff')).luma, reference));
    }
    expect(scores).toEqual(scores.toSorted((a, b) => b - a));
    expect(scores[0]).toBeGreaterThan(0.98);
  });

  test('subsampled colour lowers the score of colour, but hardly that of brightness', async () => {
    const [width, height] = [64, 64];
    const stripes = Buffer.alloc(width * height * 3);
    for (let pixel = 0; pixel < width * height; pixel++) stripes.set(pixel % 2 ? [190, 0, 0] : [0, 97, 0], pixel * 3);
    const image = () => sharp(stripes, { raw: { width, height, channels: 3 } });
    const reference = await planesOf(await image().png().toBuffer(), '#ffffff');
    const likeness = async (chromaSubsampling: string) => {
      const planes = await planesOf(await image().jpeg({ quality: 95, chromaSubsampling }).toBuffer(), '#ffffff');
      return [ssim(planes.luma, reference.luma), ssim(planes.redDifference, reference.redDifference)] as const;
    };
    const [whole, halved] = [await likeness('4:4:4'), await likeness('4:2:0')];
    expect(whole[1]).toBeGreaterThan(0.95);
    expect(halved[1]).toBeLessThan(0.1);
  });

  test('pictures of different sizes are refused', () => {
    const small: Plane = { width: 12, height: 12, data: new Float32Array(144) };
    expect(() => ssim(small, sample())).toThrow(RangeError);
    expect(() => ssim({ ...small, width: 4, height: 36 }, { ...small, width: 4, height: 36 })).toThrow(RangeError);
  });
});
