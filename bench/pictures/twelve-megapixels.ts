import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import sharp from 'sharp';
import { cached } from '../cache.ts';
import { paintLandscape } from './painters/landscape.mjs';

export const twelveMegapixelSize = { width: 4000, height: 3000 };
const { width, height } = twelveMegapixelSize;

/**
 * Paths of five JPEGs of 4000 x 3000 as a telephone writes them: a landscape with film grain, quality 92, 4:2:0. The first
 * is painted (half a minute, once). The others are mirrored and tinted copies, so that a row of pictures is not one file.
 */
export async function twelveMegapixels(): Promise<string[]> {
  const folder = await cached('twelve-megapixels-1', async (path) => {
    await mkdir(path);
    const pixels = paintLandscape({ width, height, seed: 12, grain: 2.6 });
    const painting = sharp(pixels, { raw: { width, height, channels: 3 } });
    const variants = [
      painting.clone(),
      painting.clone().flop().modulate({ hue: 12 }),
      painting.clone().flip().modulate({ brightness: 1.15 }),
      painting.clone().flop().flip().modulate({ saturation: 0.7 }),
      painting.clone().modulate({ brightness: 1.3, hue: 330 }),
    ];
    for (const [index, variant] of variants.entries()) {
      await variant
        .jpeg({ quality: 92 })
        .withExif({ IFD0: { Make: 'MDS', Model: 'Benchmark' } })
        .toFile(join(path, `${index}.jpg`));
    }
  });
  return [0, 1, 2, 3, 4].map((index) => join(folder, `${index}.jpg`));
}
