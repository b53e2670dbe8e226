import { clamp, colour, createCanvas, develop, mix, ramp } from './canvas.mjs';
import { createNoise } from './noise.mjs';

/**
 * Folds of silk in colours outside sRGB. Returns 8-bit Display P3 values, three bytes a pixel. An sRGB reader that ignores the
 * profile shows them too pale.
 */
export function paintSilk({ width, height, seed = 3 }) {
  const canvas = createCanvas(width, height);
  const noise = createNoise(seed);
  const dye = ramp([
    [0, colour('#1b0638')],
    [0.28, colour('#8a0f6e')],
    [0.5, colour('#ff2d55')],
    [0.72, colour('#ff7a1a')],
    [1, colour('#ffd21f')],
  ]);
  const fold = (/** @type {number} */ u, /** @type {number} */ v) => {
    const warp = noise.fbm(u * 1.1 + 5, v * 1.1 + 2, 2);
    const bend = noise.fbm(u * 0.8 + warp * 1.6 + 11, v * 0.8 + warp + 7, 2);
    return Math.sin((u * 1.6 + v * 2.6 + bend * 5.2) * 2.4) * 0.5 + 0.4 * Math.sin((v * 1.7 - u + warp * 4.4) * 3.1);
  };
  const step = 1 / width;
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const u = (x / width) * 1.9;
      const v = (y / width) * 1.9;
      const level = fold(u, v);
      const slopeX = (fold(u + step, v) - level) / step / 9;
      const slopeY = (fold(u, v + step) - level) / step / 9;
      const length = Math.hypot(slopeX, slopeY, 1);
      const facing = clamp((-slopeX * 0.55 - slopeY * 0.6 + 0.62) / length);
      const sheen = clamp((-slopeX * 0.36 - slopeY * 0.4 + 0.84) / length) ** 26;
      const weave = 1 + 0.02 * noise.sample(x * 0.9, y * 0.23);
      const base = dye(clamp(0.5 + 0.3 * level + 0.55 * noise.fbm(u * 0.5 + 20, v * 0.5 + 9, 2) + 0.1 * (v - 0.6)));
      const lit = mix(base, [1, 0.93, 0.86], sheen * 0.32);
      const at = (y * width + x) * 3;
      for (let c = 0; c < 3; c++) canvas.data[at + c] = lit[c] * (0.1 + 1.15 * facing) * weave;
    }
  }
  return develop(canvas, { exposure: 0.95, grain: 0.9, vignette: 0.3, seed });
}
