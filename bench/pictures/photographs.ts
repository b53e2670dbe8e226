import {
  blend,
  type Canvas,
  type Colour,
  clamp,
  colour,
  createCanvas,
  develop,
  mix,
  smoothstep,
} from './painters/canvas.mjs';
import { createNoise, createRandom } from './painters/noise.mjs';

/** Photographs, painted pixel by pixel; 8-bit sRGB, three bytes a pixel. */
export interface Size {
  readonly width: number;
  readonly height: number;
}

function paint({ width, height }: Size, at: (u: number, v: number, x: number, y: number) => Colour): Canvas {
  const canvas = createCanvas(width, height);
  const unit = Math.min(width, height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) blend(canvas, x, y, at(x / unit, y / unit, x, y), 1);
  }
  return canvas;
}

/** A wall or a sky: slow gradients with almost no detail, where banding shows first. */
export function smoothGradient(size: Size, seed: number): Uint8Array {
  const noise = createNoise(seed);
  const [a, b, c] = [colour('#3c6fb0'), colour('#f0d9c8'), colour('#8a5a9e')];
  const canvas = paint(size, (u, v) =>
    mix(mix(a, b, smoothstep(0, 1.3, v + 0.2 * noise.fbm(u, v, 2))), c, 0.4 * clamp(u - v * 0.5)),
  );
  return develop(canvas, { grain: 0.6, vignette: 0.2, seed });
}

/** A dim room at a high ISO: soft shapes under strong noise. */
export function highIso(size: Size, seed: number): Uint8Array {
  const noise = createNoise(seed);
  const canvas = paint(size, (u, v) => {
    const shape = smoothstep(-0.1, 0.15, noise.fbm(u * 2.2, v * 2.2, 4));
    return mix(
      colour('#1d1a22'),
      mix(colour('#7a5a3c'), colour('#b08a66'), noise.fbm(u * 7, v * 7, 3) + 0.5),
      shape * 0.8,
    );
  });
  return develop(canvas, { grain: 11, vignette: 0.6, seed });
}

/** Leaves in the sun: small, sharp, everywhere. */
export function foliage(size: Size, seed: number): Uint8Array {
  const noise = createNoise(seed);
  const canvas = paint(size, (u, v) => {
    const clump = noise.fbm(u * 5, v * 5, 3);
    const leaf =
      Math.abs(noise.sample(u * 46 + clump * 4, v * 46)) * 1.6 +
      0.5 * Math.abs(noise.sample(u * 110, v * 110 + clump * 6));
    const shade = smoothstep(0.06, 0.7, leaf + clump * 0.55);
    return mix(
      mix(colour('#0b1a08'), colour('#3c6b22'), shade),
      colour('#d9e88a'),
      smoothstep(0.75, 1.25, leaf + clump) * 0.9,
    );
  });
  return develop(canvas, { grain: 2, vignette: 0.2, seed });
}

/** Bricks, mortar and weather: regular edges with texture. */
export function brickwork(size: Size, seed: number): Uint8Array {
  const noise = createNoise(seed);
  const canvas = paint(size, (u, v) => {
    const row = Math.floor(v * 26);
    const shifted = u * 12 + (row % 2) * 0.5;
    const [inX, inY] = [shifted - Math.floor(shifted), v * 26 - row];
    const joint = Math.min(
      smoothstep(0, 0.05, inX),
      smoothstep(1, 0.95, inX),
      smoothstep(0, 0.12, inY),
      smoothstep(1, 0.88, inY),
    );
    const tone = 0.5 + 0.5 * noise.sample(Math.floor(shifted) * 3.7, row * 5.3);
    const rough = noise.fbm(u * 90, v * 90, 4);
    const brick = mix(mix(colour('#6e2f22'), colour('#b5694a'), tone), colour('#3b2420'), clamp(0.3 - rough));
    return mix(mix(colour('#a79f94'), colour('#cfc8bd'), 0.5 + rough), brick, joint);
  });
  return develop(canvas, { grain: 2.4, vignette: 0.3, seed });
}

/** Rings that become ever finer: every frequency up to the highest, as in test charts. */
export function zonePlate(size: Size): Uint8Array {
  const canvas = paint(size, (u, v) => {
    const wave = 0.5 + 0.45 * Math.cos(((u - 0.75) ** 2 + (v - 0.5) ** 2) * 420);
    return [wave, wave, wave];
  });
  return develop(canvas, { grain: 0, vignette: 0, seed: 1 });
}

/** A head before a blurred room: skin, hair, a catch of light in the eyes. */
export function portrait(size: Size, seed: number, tones: { skin: string; hair: string; room: string }): Uint8Array {
  const noise = createNoise(seed);
  const random = createRandom(seed);
  const [skin, hair, room] = [colour(tones.skin), colour(tones.hair), colour(tones.room)];
  const lamps = Array.from({ length: 26 }, () => ({
    u: random() * 1.2,
    v: random() * 1.5,
    radius: 0.03 + 0.07 * random(),
    light: mix(colour('#ffb060'), colour('#80b8ff'), random() ** 2),
  }));
  const canvas = paint(size, (u, v) => {
    let seen = mix(mix(room, [0, 0, 0], 0.5), room, 0.5 + noise.fbm(u * 1.4, v * 1.4, 2));
    for (const { u: lu, v: lv, radius, light } of lamps) {
      const distance = Math.hypot(u - lu, v - lv) / radius;
      seen = mix(seen, light, 0.42 * smoothstep(1.05, 0.92, distance) * (0.7 + 0.3 * smoothstep(0.5, 1, distance)));
    }
    const [hx, hy] = [(u - 0.52) / 0.27, (v - 0.66) / 0.36];
    const strand = noise.fbm(hx * 16 + Math.sin(hy * 2) * 2 + noise.fbm(hx * 2, hy * 2, 2) * 5, hy * 1.6, 5);
    const mane = smoothstep(1.5, 1.38, Math.hypot(hx * 1.05, (hy + 0.12) * (hy > 0 ? 0.72 : 1.04)) + 0.16 * strand);
    const lock = mix(mix(hair, [0, 0, 0], 0.6), mix(hair, [1, 0.9, 0.8], 0.3), clamp(0.45 + 1.1 * strand));
    seen = mix(seen, lock, mane);
    const shoulders = smoothstep(0.42, 0.39, Math.abs(u - 0.52) * 0.8 - (v - 1.12) * 0.9) * smoothstep(1.06, 1.12, v);
    const weave = 0.7 + 0.3 * Math.sin((u + v) * 420) * Math.sin((u - v) * 420);
    seen = mix(seen, mix(colour('#26364d'), colour('#4d6588'), weave * (0.6 + noise.fbm(u * 6, v * 6, 3))), shoulders);
    const face = smoothstep(1.02, 0.98, Math.hypot(hx, hy * 0.92 + 0.02 * noise.fbm(hx * 3, 1, 2)));
    const round = Math.sqrt(Math.max(0, 1 - Math.min(1, hx * hx + hy * hy * 0.8)));
    const pores = noise.fbm(u * 170, v * 170, 3) * 0.09;
    const nose =
      0.25 * Math.exp(-(((hx - 0.04) / 0.09) ** 2)) * smoothstep(-0.3, 0.25, hy) * smoothstep(0.34, 0.26, hy);
    const lit = clamp(0.32 + 0.7 * round * (0.75 - 0.35 * hx) + nose + pores, 0, 1.3);
    let flesh = mix(mix(skin, colour('#40150f'), 0.7), mix(skin, [1, 0.92, 0.84], 0.25), clamp(lit));
    flesh = mix(
      flesh,
      colour('#c2605a'),
      0.3 * Math.exp(-(((Math.abs(hx) - 0.45) / 0.22) ** 2) - ((hy - 0.25) / 0.2) ** 2),
    );
    for (const side of [-1, 1]) {
      const [ex, ey] = [(hx - side * 0.37) / 0.17, (hy + 0.1) / 0.075];
      const lid = smoothstep(1.05, 0.9, Math.hypot(ex, ey));
      const iris = smoothstep(0.036, 0.031, Math.hypot((hx - side * 0.37) * 0.27, (hy + 0.1) * 0.36) * 1.15);
      const pupil = smoothstep(0.015, 0.012, Math.hypot((hx - side * 0.37) * 0.27, (hy + 0.1) * 0.36));
      const glint = smoothstep(0.008, 0.004, Math.hypot((hx - side * 0.37 + 0.03) * 0.27, (hy + 0.125) * 0.36));
      flesh = mix(
        flesh,
        mix(mix(mix(colour('#e8e0da'), colour('#4b6b52'), iris), [0.01, 0.01, 0.01], pupil), [1, 1, 1], glint),
        lid,
      );
      const brow = Math.exp(-(((hx - side * 0.38) / 0.2) ** 4) - ((hy + 0.31 - 0.05 * Math.abs(ex)) / 0.035) ** 2);
      flesh = mix(flesh, hair, clamp(brow * (0.75 + 0.8 * strand)));
    }
    const mouth = Math.exp(-((hx / 0.3) ** 4) - ((hy - 0.5 + 0.06 * hx * hx) / 0.055) ** 2);
    flesh = mix(flesh, colour('#a8433f'), clamp(mouth) * 0.8);
    seen = mix(seen, flesh, face);
    const fringe =
      smoothstep(0.1, -0.1, hy + 0.62 + 0.3 * hx + 0.22 * strand) * smoothstep(1.35, 1.2, Math.hypot(hx, hy));
    return mix(seen, lock, fringe);
  });
  return develop(canvas, { exposure: 1.1, grain: 2, vignette: 0.4, seed });
}
