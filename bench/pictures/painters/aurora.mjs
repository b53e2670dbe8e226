import { blend, clamp, colour, createCanvas, develop, mix, ramp, shine, smoothstep } from './canvas.mjs';
import { createNoise, createRandom } from './noise.mjs';

const light = ramp([
  [0, colour('#8cffc0')],
  [0.1, colour('#4dffa0')],
  [0.42, colour('#22c9a0')],
  [0.7, colour('#5f55d8')],
  [1, colour('#c03aa6')],
]);

/**
 * Northern lights over a snowy fell. Returns 8-bit sRGB, three bytes a pixel.
 * @param {{ width: number, height: number, seed?: number, seconds?: number, grain?: number, exposure?: number }} options
 *   `seconds`: the time, with which the curtains drift
 */
export function paintAurora({ width, height, seed = 5, seconds = 0, grain = 1.2, exposure = 1.15 }) {
  const canvas = createCanvas(width, height);
  const noise = createNoise(seed);
  const random = createRandom(seed);
  const night = ramp([
    [0, colour('#070b1e')],
    [0.6, colour('#0d1a33')],
    [1, colour('#1c3a4c')],
  ]);
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) blend(canvas, x, y, night(y / height), 1);
  for (let i = 0; i < 1400; i++) {
    const x = Math.floor(random() * width);
    const y = Math.floor(random() * height * 0.85);
    shine(canvas, x, y, mix(colour('#ffe0c0'), colour('#cfe0ff'), random()), 0.05 + 1.4 * random() ** 10);
  }
  // Farther curtains hang lower, are smaller and fainter.
  for (const [index, far] of [0.9, 0.55, 0.18].entries()) paintCurtain(canvas, noise, { index, far, seconds });
  paintFells(canvas, noise);
  return develop(canvas, { exposure, grain, vignette: 0.5, seed });
}

/** One curtain: a folded line along the ground, seen from below; rays rise from it and fade. */
function paintCurtain(canvas, noise, { index, far, seconds }) {
  const { width, height } = canvas;
  const folds = 2600;
  for (let i = 0; i < folds; i++) {
    const along = i / folds;
    const drift = noise.fbm(along * 3.2 + index * 17, 4 + index + seconds * 0.05, 4);
    const x = (along * 1.5 - 0.25 + 0.085 * Math.sin(along * 9 + index * 2.1) + 0.1 * drift) * width;
    const foot = height * (0.4 + 0.3 * far + 0.12 * Math.sin(along * 6.5 + index * 1.9) + 0.16 * drift);
    const streak = clamp(0.5 + 0.9 * noise.fbm(along * 110 + index * 31 + seconds * 0.9, 7 + seconds * 0.12, 5));
    const patch = smoothstep(-0.3, 0.38, noise.fbm(along * 6 + index * 13 - seconds * 0.16, 11 + seconds * 0.07, 3));
    const tall = height * (0.16 + 0.42 * streak * (1 - far * 0.4) + 0.2 * patch);
    const strength = (0.012 + 0.11 * patch * (0.25 + streak)) * (1.05 - 0.5 * far);
    const half = (width / 1600) * (2.2 + 2.2 * streak);
    for (let y = Math.max(0, Math.floor(foot - tall)); y < Math.min(height, foot + tall * 0.22); y++) {
      const up = (foot - y) / tall;
      const glow =
        smoothstep(-0.1, 0.06, up) * clamp(1 - Math.max(0, up)) ** 1.9 * (0.42 + 0.5 * Math.exp(-Math.max(0, up) * 6));
      const hue = light(clamp(up * 1.1));
      for (let px = Math.floor(x - half * 2); px <= x + half * 2; px++) {
        shine(canvas, px, y, hue, strength * glow * Math.exp(-(((px - x) / half) ** 2)));
      }
    }
  }
}

function paintFells(canvas, noise) {
  const { width, height } = canvas;
  const layers = [
    { base: 0.8, relief: 0.12, rate: 2.6, near: colour('#0d2030') },
    { base: 0.88, relief: 0.1, rate: 4.1, near: colour('#0a1724') },
    { base: 0.97, relief: 0.07, rate: 6.5, near: colour('#04080e') },
  ];
  for (const [index, { base, relief, rate, near }] of layers.entries()) {
    for (let x = 0; x < width; x++) {
      const u = x / width;
      const edge = height * (base - relief * noise.fbm(u * rate + index * 40, 20 + index, 8));
      for (let y = Math.max(0, Math.floor(edge)); y < height; y++) {
        const depth = (y - edge) / height;
        const snow =
          smoothstep(0.0, 0.35, noise.fbm(u * 30 + depth * 20, depth * 60 + index, 5)) * Math.exp(-depth * 14);
        const lit = mix(near, colour('#5fa893'), snow * (0.5 - index * 0.16));
        blend(canvas, x, y, lit, clamp(y - edge));
      }
    }
    const step = width / 520;
    if (index < 2) continue;
    for (let x = 0; x < width; x += step) {
      const u = x / width;
      const tall =
        height * 0.05 * (0.35 + Math.abs(noise.sample(u * 160, 3))) * smoothstep(-0.3, 0.2, noise.fbm(u * 7, 33, 3));
      const foot = height * (base - relief * noise.fbm(u * rate + index * 40, 20 + index, 8)) + 2;
      for (let y = Math.floor(foot - tall); y < foot; y++) {
        const half = ((y - foot + tall) / tall) * tall * 0.16 * (0.6 + 0.4 * Math.sin(y * 2.3 + x));
        for (let px = Math.floor(x - half); px <= x + half; px++) {
          if (px >= 0 && px < width && y >= 0 && y < height)
            blend(canvas, px, y, near, clamp(half - Math.abs(px - x) + 0.6));
        }
      }
    }
  }
}
