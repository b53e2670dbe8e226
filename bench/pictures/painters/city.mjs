import { blend, clamp, colour, createCanvas, develop, mix, ramp, shine, smoothstep } from './canvas.mjs';
import { createNoise, createRandom } from './noise.mjs';

const WATERLINE = 0.7;

/** A harbour city at night, its lights in the water. Returns 8-bit sRGB, three bytes a pixel. */
export function paintCity({ width, height, seed = 21 }) {
  const canvas = createCanvas(width, height);
  const noise = createNoise(seed);
  const random = createRandom(seed);
  const quay = Math.round(height * WATERLINE);
  const sky = ramp([
    [0, colour('#050818')],
    [0.45, colour('#101a3c')],
    [0.8, colour('#3a2c58')],
    [1, colour('#8a4a58')],
  ]);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const cloud =
        smoothstep(-0.1, 0.5, noise.fbm((x / width) * 4, (y / height) * 9, 6)) * smoothstep(0.1, 0.6, y / quay);
      blend(canvas, x, y, mix(sky(clamp(y / quay)), colour('#a06066'), cloud * 0.28), 1);
    }
  }
  for (let i = 0; i < 240; i++) {
    shine(
      canvas,
      Math.floor(random() * width),
      Math.floor(random() * quay * 0.5),
      [1, 1, 1],
      0.02 + 0.5 * random() ** 6,
    );
  }
  const layers = [
    { far: 1, tallest: 0.3, widths: [0.012, 0.03] },
    { far: 0.6, tallest: 0.46, widths: [0.018, 0.04] },
    { far: 0.15, tallest: 0.33, widths: [0.025, 0.055] },
  ];
  for (const layer of layers) paintBlocks(canvas, noise, random, quay, layer);
  bloom(canvas, Math.round(width / 160), 0.35);
  bloom(canvas, Math.round(width / 36), 0.3);
  paintHarbour(canvas, noise, quay);
  return develop(canvas, { exposure: 1.25, grain: 1.3, vignette: 0.45, seed });
}

function paintBlocks(canvas, noise, random, quay, { far, tallest, widths }) {
  const { width, height } = canvas;
  const haze = colour('#59395a');
  let left = -0.02 * width;
  while (left < width) {
    const broad = Math.round(width * (widths[0] + random() * (widths[1] - widths[0])));
    const u = (left + broad / 2) / width;
    const downtown = Math.exp(-(((u - 0.58) / 0.2) ** 2)) + 0.55 * Math.exp(-(((u - 0.2) / 0.13) ** 2));
    const tall = Math.round(height * tallest * (0.18 + 0.3 * random() + 0.62 * downtown * (0.5 + 0.5 * random())));
    const top = quay - tall;
    const wall = mix(mix(colour('#0b0e1c'), colour('#1c1a30'), random()), haze, far * 0.5);
    const setback = random() < 0.4 ? Math.round(broad * 0.18) : 0;
    for (let y = top; y < quay; y++) {
      const inset = y < top + tall * 0.18 ? setback : 0;
      for (let x = Math.max(0, left + inset); x < Math.min(width, left + broad - inset); x++) {
        const side = (x - left) / broad;
        blend(canvas, Math.round(x), y, mix(wall, haze, 0.1 + 0.22 * (1 - side) * far + 0.14 * ((y - top) / tall)), 1);
      }
    }
    if (tall > height * 0.3 && random() < 0.75)
      paintMast(canvas, Math.round(left + broad / 2), top, Math.round(tall * 0.22), random);
    paintWindows(canvas, noise, random, { left: left + setback, top, broad: broad - 2 * setback, tall, far });
    left += broad + Math.round(random() * width * 0.006 * (1 + far));
  }
}

function paintMast(canvas, x, top, tall, random) {
  for (let y = Math.max(0, top - tall); y < top; y++) {
    if (x >= 0 && x < canvas.width) blend(canvas, x, y, colour('#15152a'), 0.9);
  }
  const lamp = random() < 0.5 ? colour('#ff3030') : colour('#ff8040');
  for (let dy = -1; dy <= 1; dy++) for (let dx = -1; dx <= 1; dx++) shine(canvas, x + dx, top - tall + dy, lamp, 2.4);
}

function paintWindows(canvas, noise, random, { left, top, broad, tall, far }) {
  const unit = canvas.width / 1600;
  const pitchX = Math.max(3, Math.round((7 - 3 * far) * unit));
  const pitchY = Math.max(4, Math.round((9 - 4 * far) * unit));
  const warm = mix(colour('#ffb866'), colour('#ffe2b0'), random());
  const tone = random() < 0.24 ? colour('#b8d8ff') : warm;
  const share = 0.2 + 0.45 * random();
  for (let y = top + pitchY; y < top + tall - pitchY; y += pitchY) {
    const floor = random() < 0.1 ? 0.95 : share;
    for (let x = left + 2; x < left + broad - pitchX + 1; x += pitchX) {
      const office = noise.fbm(x * 0.05, y * 0.04, 3);
      if (random() > floor + office * 0.5) continue;
      const strength = (0.25 + 0.9 * random() ** 2) * (1 - 0.45 * far);
      for (let dy = 0; dy < pitchY * 0.55; dy++) {
        for (let dx = 0; dx < pitchX * 0.6; dx++) shine(canvas, Math.round(x) + dx, y + dy, tone, strength);
      }
    }
  }
}

/** Bright light spills over, as it does in a lens: a box blur, three times each way, added to the picture. */
function bloom(canvas, radius, amount) {
  const { width, height, data } = canvas;
  let from = Float32Array.from(data, (value) => Math.max(0, value - 0.12));
  for (let pass = 0; pass < 3; pass++) {
    from = blurLines(from, { lines: height, length: width, lineStep: width * 3, step: 3, radius });
    from = blurLines(from, { lines: width, length: height, lineStep: 3, step: width * 3, radius });
  }
  for (let i = 0; i < data.length; i++) data[i] += from[i] * amount;
}

function blurLines(from, { lines, length, lineStep, step, radius }) {
  const to = new Float32Array(from.length);
  const share = 1 / (2 * radius + 1);
  for (let line = 0; line < lines; line++) {
    for (let channel = 0; channel < 3; channel++) {
      const start = line * lineStep + channel;
      let sum = 0;
      for (let i = -radius; i < length; i++) {
        if (i + radius < length) sum += from[start + (i + radius) * step];
        if (i - radius - 1 >= 0) sum -= from[start + (i - radius - 1) * step];
        if (i >= 0) to[start + i * step] = sum * share;
      }
    }
  }
  return to;
}

/** Lights in moving water are drawn out into columns: each pixel gathers from a stretch above the quay. */
function paintHarbour(canvas, noise, quay) {
  const { width, height, data } = canvas;
  const deep = colour('#060a18');
  for (let y = quay; y < height; y++) {
    const near = (y - quay) / (height - quay);
    for (let x = 0; x < width; x++) {
      const wave = noise.fbm((x / width) * (34 - 22 * near), 26 / (near + 0.07), 4);
      const gathered = [0, 0, 0];
      const taps = 9;
      for (let i = 0; i < taps; i++) {
        const stretch = (i / taps - 0.5) * (14 + 190 * near) + wave * (10 + 90 * near);
        const from = clamp(Math.round(quay - 2 - (y - quay) * 1.25 - stretch * (height / 1000)), 0, quay - 2);
        const across = clamp(Math.round(x + wave * 9 * near * (i - 4)), 0, width - 1);
        for (let c = 0; c < 3; c++) gathered[c] += data[(from * width + across) * 3 + c] / taps;
      }
      blend(canvas, x, y, gathered, 1);
      blend(canvas, x, y, deep, clamp(0.26 + 0.3 * near + 0.5 * wave));
    }
  }
  for (let x = 0; x < width; x++) {
    for (let y = quay - 3; y < quay + 2; y++) blend(canvas, x, y, colour('#05060c'), 0.85);
    if (x % Math.round(width / 62) === 0) {
      for (let dy = 0; dy < 3; dy++)
        for (let dx = 0; dx < 3; dx++) shine(canvas, x + dx, quay - 6 + dy, colour('#ffb070'), 3);
    }
  }
}
