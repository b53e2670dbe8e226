import { blend, clamp, colour, createCanvas, develop, mix, ramp, smoothstep } from './canvas.mjs';
import { createNoise } from './noise.mjs';

/** Sand dunes in the last sun of the day. Returns 8-bit sRGB, three bytes a pixel. */
export function paintDunes({ width, height, seed = 44 }) {
  const canvas = createCanvas(width, height);
  const noise = createNoise(seed);
  const horizon = height * 0.4;
  const sky = ramp([
    [0, colour('#33507c')],
    [0.5, colour('#8f9fb4')],
    [0.85, colour('#f2c79a')],
    [1, colour('#ffdca8')],
  ]);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      blend(canvas, x, y, sky(clamp(y / horizon)), 1);
      const glow = Math.exp(-(((x / width - 0.78) ** 2 + ((y - horizon * 0.93) / width) ** 2) / 0.006));
      const disc = smoothstep(0.0262, 0.0252, Math.hypot(x / width - 0.78, (y - horizon * 0.9) / width));
      blend(canvas, x, y, colour('#fff0c8'), clamp(glow * 0.7));
      blend(canvas, x, y, [1.6, 1.4, 1], disc);
    }
  }
  const layers = 7;
  for (let layer = 0; layer < layers; layer++) paintDune(canvas, noise, layer / (layers - 1), horizon, layer);
  return develop(canvas, { exposure: 1, grain: 1.5, vignette: 0.4, seed });
}

/** One crest: its right side in the sun, its left in blue shade, the border a line that winds down from the crest. */
function paintDune(canvas, noise, near, horizon, layer) {
  const { width, height } = canvas;
  const haze = colour('#f3b98a');
  const base = horizon + (height * 0.62 - horizon * 0.2) * near ** 1.5;
  const relief = height * (0.035 + 0.17 * near);
  const rate = 3.4 - 2.2 * near;
  const crest = (/** @type {number} */ u) => {
    const wave = noise.fbm(u * rate + layer * 23, layer * 7 + 1, 2);
    return base - relief * (1 - 2.6 * Math.abs(wave)) * 0.9;
  };
  for (let x = 0; x < width; x++) {
    const u = x / width;
    const edge = crest(u);
    for (let y = Math.max(0, Math.floor(edge)); y < height; y++) {
      const depth = (y - edge) / height;
      const wind = noise.fbm(u * rate * 1.1 + layer * 23 + depth * 1.7, depth * 3.2 + layer * 7 + 1, 3);
      const slope = noise.fbm((u + 0.02) * rate + layer * 23 + depth * 1.2, layer * 7 + 1 + depth * 0.9, 2);
      const here = noise.fbm(u * rate + layer * 23 + depth * 1.2, layer * 7 + 1 + depth * 0.9, 2);
      const tilt = (Math.abs(slope) - Math.abs(here)) * 22;
      const sunny = smoothstep(-0.12, 0.16, tilt + 0.25 * wind);
      const phase = (depth * 190 + u * 26 + wind * 9) / (0.35 + near);
      const ripple = Math.sin(phase) * 0.07 * near * smoothstep(0, 0.05, depth);
      const sand = mix(colour('#5b3f45'), colour('#e58a48'), clamp(sunny * 0.92 + 0.05 + ripple));
      const rim = Math.exp(-depth * 130) * sunny * 0.3;
      const faded = mix(mix(sand, colour('#ffd9a0'), rim), haze, 0.62 * (1 - near) ** 1.5);
      blend(canvas, x, y, faded, clamp(y - edge));
    }
  }
}
