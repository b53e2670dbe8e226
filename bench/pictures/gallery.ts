import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import sharp, { type Sharp } from 'sharp';
import { cached } from '../cache.ts';
import { editor, lineArt, screenshot, townMap, translucent } from './drawings.ts';
import { paintAurora } from './painters/aurora.mjs';
import { paintCity } from './painters/city.mjs';
import { drawPoster } from './painters/drawings.mjs';
import { paintDunes } from './painters/dunes.mjs';
import { paintLandscape } from './painters/landscape.mjs';
import { paintSilk } from './painters/silk.mjs';
import { brickwork, foliage, highIso, portrait, type Size, smoothGradient, zonePlate } from './photographs.ts';

/** A picture of the gallery. */
export interface GalleryPicture {
  readonly name: string;
  readonly path: string;
  readonly size: Size;
}

const landscape: Size = { width: 2400, height: 1600 };
const upright: Size = { width: 1600, height: 2133 };

/** Formats as cameras and editors write them: photographs as JPEG of high quality, drawings as PNG. */
const photographs: Record<string, () => { size: Size; pixels: Uint8Array }> = {
  'lake-dusk': () => ({ size: landscape, pixels: paintLandscape({ ...landscape, seed: 9 }) }),
  'lake-dawn': () => ({ size: landscape, pixels: paintLandscape({ ...landscape, seed: 15, mood: 'dawn' }) }),
  'lake-upright': () => ({ size: upright, pixels: paintLandscape({ ...upright, seed: 13, grain: 3 }) }),
  'city-night': () => ({ size: landscape, pixels: paintCity({ ...landscape, seed: 4 }) }),
  aurora: () => ({ size: landscape, pixels: paintAurora({ ...landscape, seed: 6 }) }),
  dunes: () => ({ size: landscape, pixels: paintDunes({ ...landscape, seed: 45 }) }),
  silk: () => ({ size: landscape, pixels: paintSilk({ ...landscape, seed: 9 }) }),
  'smooth-gradient': () => ({ size: landscape, pixels: smoothGradient(landscape, 2) }),
  'high-iso': () => ({ size: landscape, pixels: highIso(landscape, 3) }),
  foliage: () => ({ size: landscape, pixels: foliage(landscape, 5) }),
  brickwork: () => ({ size: landscape, pixels: brickwork(landscape, 6) }),
  'portrait-warm': () => ({
    size: upright,
    pixels: portrait(upright, 8, { skin: '#d9a07c', hair: '#3a2216', room: '#6b5a48' }),
  }),
  'portrait-dark': () => ({
    size: upright,
    pixels: portrait(upright, 18, { skin: '#7a4a32', hair: '#0f0c0c', room: '#3f5a66' }),
  }),
};

const drawings: Record<string, () => Sharp> = {
  'zone-plate': () =>
    sharp(zonePlate({ width: 2048, height: 1366 }), { raw: { width: 2048, height: 1366, channels: 3 } }),
  screenshot: () => drawn(screenshot(1)).removeAlpha(),
  editor: () => drawn(editor(2)).removeAlpha(),
  'line-art': () => drawn(lineArt(3)).removeAlpha(),
  'town-map': () => drawn(townMap(4)).removeAlpha(),
  poster: () => sharp(Buffer.from(drawPoster()), { density: 144 }),
  translucent: () => drawn(translucent(5)),
};

function drawn(svg: string): Sharp {
  return sharp(Buffer.from(svg), { unlimited: true });
}

/** Twenty pictures of the kinds that people upload. Painted once (a few minutes), then kept. */
export async function gallery(progress: (message: string) => void): Promise<GalleryPicture[]> {
  const folder = await cached('gallery-1', async (path) => {
    await mkdir(path);
    for (const [name, paint] of Object.entries(photographs)) {
      progress(`painting ${name}`);
      const { size, pixels } = paint();
      await sharp(pixels, { raw: { ...size, channels: 3 } })
        .jpeg({ quality: 93, chromaSubsampling: '4:4:4' })
        .toFile(join(path, `${name}.jpg`));
    }
    for (const [name, draw] of Object.entries(drawings)) {
      progress(`drawing ${name}`);
      await draw()
        .png()
        .toFile(join(path, `${name}.png`));
    }
  });
  const files = [
    ...Object.keys(photographs).map((name) => ({ name, file: `${name}.jpg` })),
    ...Object.keys(drawings).map((name) => ({ name, file: `${name}.png` })),
  ];
  return Promise.all(
    files.map(async ({ name, file }) => {
      const path = join(folder, file);
      const { width, height } = (await sharp(path).metadata()).autoOrient;
      return { name, path, size: { width, height } };
    }),
  );
}
