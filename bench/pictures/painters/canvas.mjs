import { createNormal } from './noise.mjs';

/** @typedef {[red: number, green: number, blue: number]} Colour in linear light, 1 being white. */
/** @typedef {{ width: number, height: number, data: Float32Array }} Canvas three linear floats a pixel. */

/** @returns {Canvas} */
export function createCanvas(/** @type {number} */ width, /** @type {number} */ height) {
  return { width, height, data: new Float32Array(width * height * 3) };
}

/** `#rrggbb` in linear light. @returns {Colour} */
export function colour(/** @type {string} */ hex) {
  const channel = (/** @type {number} */ at) => {
    const value = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return [channel(1), channel(3), channel(5)];
}

export const clamp = (/** @type {number} */ value, low = 0, high = 1) => Math.min(high, Math.max(low, value));

/** 0 below `from`, 1 above `to`, smooth between; `from` may be the larger. */
export function smoothstep(/** @type {number} */ from, /** @type {number} */ to, /** @type {number} */ value) {
  const t = clamp((value - from) / (to - from));
  return t * t * (3 - 2 * t);
}

/** @param {Colour} a @param {Colour} b @param {number} t @returns {Colour} */
export function mix(a, b, t) {
  return [a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t, a[2] + (b[2] - a[2]) * t];
}

/** A scale of colours: `stops` are positions, rising, with their colours. @param {[number, Colour][]} stops */
export function ramp(stops) {
  return (/** @type {number} */ position) => {
    const next = stops.findIndex(([at]) => at >= position);
    if (next === 0) return stops[0][1];
    if (next < 0) return stops[stops.length - 1][1];
    const [from, before] = stops[next - 1];
    const [to, after] = stops[next];
    return mix(before, after, (position - from) / (to - from));
  };
}

/** @param {Canvas} canvas @param {Colour} paint @param {number} alpha 0 to 1 */
export function blend({ width, data }, x, y, paint, alpha) {
  const at = (y * width + x) * 3;
  data[at] += (paint[0] - data[at]) * alpha;
  data[at + 1] += (paint[1] - data[at + 1]) * alpha;
  data[at + 2] += (paint[2] - data[at + 2]) * alpha;
}

/** Light added rather than covering. @param {Canvas} canvas @param {Colour} light @param {number} amount */
export function shine({ width, height, data }, x, y, light, amount) {
  if (x < 0 || y < 0 || x >= width || y >= height) return;
  const at = (y * width + x) * 3;
  data[at] += light[0] * amount;
  data[at + 1] += light[1] * amount;
  data[at + 2] += light[2] * amount;
}

/**
 * Develops linear light into 8-bit RGB as a camera would: exposure, a film-like shoulder, darker corners, grain.
 * @param {Canvas} canvas
 * @param {{ exposure?: number, grain?: number, vignette?: number, seed: number }} options grain in 8-bit steps
 */
export function develop({ width, height, data }, { exposure = 1, grain = 1.5, vignette = 0.25, seed }) {
  const normal = createNormal(seed);
  const pixels = new Uint8Array(width * height * 3);
  // One table for the shoulder and the sRGB curve together: 4096 steps over the square root of light.
  const curve = Float32Array.from({ length: 4097 }, (_, i) => encode(shoulder((i / 2048) ** 2)));
  let at = 0;
  for (let y = 0; y < height; y++) {
    const v = y / height - 0.5;
    for (let x = 0; x < width; x++) {
      const u = x / width - 0.5;
      const gain = exposure * (1 - vignette * 2 * (u * u + v * v));
      const luminanceGrain = grain * normal();
      for (let channel = 0; channel < 3; channel++, at++) {
        const light = Math.min(4, Math.max(0, data[at] * gain));
        pixels[at] = clamp(curve[Math.round(Math.sqrt(light) * 2048)] * 255 + luminanceGrain + 0.5, 0, 255);
      }
    }
  }
  return pixels;
}

/** Narkowicz's fit of the ACES film curve, made gentler in the shadows. */
function shoulder(/** @type {number} */ x) {
  return clamp((x * (2.51 * x + 0.06)) / (x * (2.43 * x + 0.59) + 0.14));
}

function encode(/** @type {number} */ light) {
  return light <= 0.0031308 ? light * 12.92 : 1.055 * light ** (1 / 2.4) - 0.055;
}
