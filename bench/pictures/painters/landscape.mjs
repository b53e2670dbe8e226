import { blend, clamp, colour, createCanvas, develop, mix, ramp, shine, smoothstep } from './canvas.mjs';
import { createNoise, createRandom } from './noise.mjs';

/** Where the water meets the land far away, as a share of the picture's height. */
const HORIZON = 0.615;
const NEAREST = 1.2;
const FARTHEST = 22;

/** Moods of the hour. `warm` and `cool` are the sky towards and away from the sun, from the horizon up. */
const moods = {
  dusk: {
    warm: ['#ffd596', '#f5a273', '#b97c86', '#6a6a92', '#34486f', '#15233f'],
    cool: ['#d9aea6', '#b08c9c', '#7d7896', '#4c5a84', '#283d62', '#111e38'],
    sun: '#ff9c66',
    shade: '#51648c',
    stars: 1,
  },
  dawn: {
    warm: ['#fff0d0', '#ffd9a8', '#f0c3b0', '#b7c0da', '#86abd9', '#5a8ccb'],
    cool: ['#e8e4e8', '#d8d6e6', '#bccbe4', '#96b6de', '#6f9ad2', '#4d7fc0'],
    sun: '#ffd9a0',
    shade: '#7d98cc',
    stars: 0,
  },
};

/**
 * A mountain lake: eroded ridges marched column by column from the camera outwards, haze, a mirror of water, conifers,
 * stars and film grain. Returns 8-bit sRGB, three bytes a pixel.
 * @param {{ width: number, height: number, seed?: number, mood?: 'dusk' | 'dawn', grain?: number }} options
 */
export function paintLandscape({ width, height, seed = 12, mood = 'dusk', grain = 1.6 }) {
  const scene = createScene(width, height, seed, moods[mood]);
  paintSky(scene);
  if (scene.mood.stars > 0) paintStars(scene);
  paintMountains(scene);
  paintMist(scene);
  paintFarShore(scene);
  paintWater(scene);
  paintConifers(scene);
  return develop(scene.canvas, { exposure: 1.05, grain, vignette: 0.4, seed: seed + 5 });
}

function createScene(width, height, seed, mood) {
  const levels = [0, 0.07, 0.2, 0.42, 0.7, 1];
  const scale = (/** @type {string[]} */ names) => ramp(names.map((name, i) => [levels[i], colour(name)]));
  const warm = scale(mood.warm);
  const cool = scale(mood.cool);
  return {
    canvas: createCanvas(width, height),
    noise: createNoise(seed),
    random: createRandom(seed + 1),
    horizon: Math.round(height * HORIZON),
    mood,
    /** Colour of the clear sky; `u` 0 to 1 from left to right, `elevation` 0 to 1 from the horizon up. */
    sky: (/** @type {number} */ u, /** @type {number} */ elevation) =>
      mix(cool(elevation), warm(elevation), Math.exp(-(((u - 0.3) / 0.36) ** 2))),
  };
}

function paintSky({ canvas, noise, horizon, mood, sky }) {
  const { width, height } = canvas;
  const lit = colour(mood.sun);
  for (let y = 0; y < height; y++) {
    const elevation = clamp(1 - y / horizon);
    for (let x = 0; x < width; x++) {
      const u = x / width;
      const clear = sky(u, elevation);
      // Long bands of cloud, seen from below: stretched sideways, more so near the horizon.
      const squeeze = 1 / (0.12 + elevation);
      const across = (u - 0.5) * squeeze * 2.2 + 3;
      const warp = noise.fbm(across * 0.9, squeeze * 1.3 + 9, 4);
      const body = noise.fbm(across * 1.4 + warp * 1.2, squeeze * 2.1 + warp * 0.5 + 20, 4);
      const wisps = noise.fbm(across * 5 + warp * 3, squeeze * 13 + warp * 4, 6);
      const density = body + 0.55 * wisps;
      const cloud =
        smoothstep(-0.05, 0.55, density) * smoothstep(0.0, 0.16, elevation) * smoothstep(1.05, 0.35, elevation);
      const towardsSun = Math.exp(-(((u - 0.3) / 0.4) ** 2)) * smoothstep(0.85, 0.1, elevation);
      const edge = smoothstep(0.5, 0.05, density);
      const glowing = mix(mix(clear, colour(mood.shade), 0.35), lit, 0.25 + 0.65 * towardsSun * (0.4 + 0.6 * edge));
      blend(canvas, x, y, clear, 1);
      blend(canvas, x, y, glowing, cloud * 0.8);
    }
  }
}

function paintStars({ canvas, random, horizon }) {
  const { width } = canvas;
  const size = width / 2400;
  for (let i = 0; i < 900; i++) {
    const x = random() * width;
    const y = random() * horizon * 0.75;
    const visible = smoothstep(0.72, 0.12, y / horizon);
    const brightness = (0.08 + 1.3 * random() ** 9) * visible;
    const radius = (0.55 + 0.9 * random() ** 6) * size;
    const tint = mix(colour('#ffd9b0'), colour('#c8dcff'), random());
    spot(canvas, x, y, radius, tint, brightness);
  }
}

function spot(canvas, x, y, radius, light, brightness) {
  const reach = Math.ceil(radius * 3);
  for (let dy = -reach; dy <= reach; dy++) {
    for (let dx = -reach; dx <= reach; dx++) {
      const px = Math.round(x) + dx;
      const py = Math.round(y) + dy;
      const distance = ((px - x) ** 2 + (py - y) ** 2) / (radius * radius);
      shine(canvas, px, py, light, brightness * Math.exp(-distance));
    }
  }
}

/** Height of the ground; the lake's level is 0. `z` is the way from the camera, `x` to the right of its axis. */
function groundHeight(noise, x, z, octaves) {
  const shore = 3.1 + 0.5 * noise.fbm(x * 0.6 + 40, 3, 3) - 0.1 * Math.abs(x);
  const rise = smoothstep(0, 5.2, z - shore + 0.05);
  if (z < shore - 0.4) return -0.05;
  const valley = 0.5 + 0.5 * smoothstep(0.1, 2.6, Math.abs(x - 0.35 * z + 1.2));
  const peak = 1.5 * Math.exp(-(((x - 1.25) / 1.5) ** 2) - ((z - 9.2) / 2.1) ** 2);
  const second = 0.9 * Math.exp(-(((x + 3.6) / 1.7) ** 2) - ((z - 11.5) / 2.4) ** 2);
  const relief = noise.eroded(x * 0.62 + 11.3, z * 0.62 + 4.1, octaves);
  const envelope = rise * (0.5 + 0.75 * valley) + peak + second;
  return (
    envelope * (0.46 + 0.62 * Math.min(relief, 0.62 + 0.3 * Math.tanh((relief - 0.62) * 2))) +
    0.04 * smoothstep(0, 0.5, z - shore) -
    0.03
  );
}

function paintMountains({ canvas, noise, horizon, mood, sky }) {
  const { width } = canvas;
  const focal = width * 0.92;
  const sunlight = colour(mood.sun);
  const skylight = colour(mood.shade);
  // Low in the left, a little behind the camera: it grazes the slopes and leaves the right-hand faces blue.
  const sun = [-0.86, 0.3, -0.42];
  const eye = 0.055;
  for (let column = 0; column < width; column++) {
    const slant = (column - width / 2) / focal;
    let top = horizon;
    let z = NEAREST;
    while (z < FARTHEST && top > 0) {
      const x = slant * z;
      const ground = groundHeight(noise, x, z, 11);
      const projected = horizon - ((ground - eye) * focal) / z;
      if (projected < top && ground > 0) {
        const from = Math.max(0, Math.floor(projected));
        const shaded = shadeGround({ noise, x, z, ground, sun, sunlight, skylight });
        const haze = sky(column / width, 0.07 + 0.24 * smoothstep(0, 1.6, ground));
        const distance = 1 - Math.exp(-((Math.max(0, z - 3) / 13.5) ** 1.4));
        const valleyFog = 0.62 * Math.exp(-ground * 5.5) * smoothstep(3.2, 7.5, z);
        const seen = mix(shaded, haze, clamp(distance * 0.86 + valleyFog * (1 - distance)));
        for (let y = from; y < Math.ceil(top); y++) {
          // The top pixel is covered in part: that is what keeps the skyline smooth.
          blend(canvas, column, y, seen, y === from ? 1 - (Math.max(0, projected) - from) : 1);
        }
        top = Math.min(top, projected);
      }
      z += z * 0.0016;
    }
  }
}

function shadeGround({ noise, x, z, ground, sun, sunlight, skylight }) {
  const step = 0.004 * z * 0.25;
  const slopeX = (groundHeight(noise, x + step, z, 12) - groundHeight(noise, x - step, z, 12)) / (2 * step);
  const slopeZ = (groundHeight(noise, x, z + step, 12) - groundHeight(noise, x, z - step, 12)) / (2 * step);
  const length = Math.hypot(slopeX, 1, slopeZ);
  const facing = clamp((-slopeX * sun[0] + sun[1] - slopeZ * sun[2]) / length);
  let light = 1;
  for (let i = 1; i <= 9 && light > 0; i++) {
    const way = 0.05 * i * (1 + 0.28 * i);
    const above = ground + sun[1] * way - groundHeight(noise, x + sun[0] * way, z + sun[2] * way, 5);
    light = Math.min(light, clamp(0.6 + above * 9));
  }
  const up = 1 / length;
  const drift = noise.fbm(x * 5 + 70, z * 5, 4);
  const snow = smoothstep(0.5, 0.95, ground + 0.28 * drift) * smoothstep(0.34, 0.62, up + 0.12 * drift);
  const forest = smoothstep(0.5, 0.2, ground + 0.2 * drift) * smoothstep(0.4, 0.7, up);
  const rock = mix(colour('#57505a'), colour('#7d6f6c'), 0.5 + 0.5 * noise.fbm(x * 9, z * 9 + ground * 14, 4));
  const base = mix(mix(rock, colour('#232f33'), forest), colour('#f2f2f8'), snow);
  const direct = facing * light * 1.95;
  const ambient = 0.3 + 0.3 * up;
  return [
    base[0] * (sunlight[0] * direct + skylight[0] * ambient),
    base[1] * (sunlight[1] * direct + skylight[1] * ambient),
    base[2] * (sunlight[2] * direct + skylight[2] * ambient),
  ];
}

/** A dark fringe of wood along the far shore. */
function paintFarShore({ canvas, noise, random, horizon, sky }) {
  const { width } = canvas;
  const unit = width / 2400;
  for (let x = -20; x < width + 20; x += 2.6 * unit) {
    const u = x / width;
    const grove = smoothstep(-0.25, 0.3, noise.fbm(u * 5 + 90, 2, 4));
    const height = (9 + 30 * grove * (0.4 + 0.6 * random()) + 6 * random()) * unit;
    const haze = sky(u, 0.04);
    conifer(
      canvas,
      x + random() * 3 * unit,
      horizon + 1,
      height,
      mix(colour('#10171f'), haze, 0.05 + 0.05 * random()),
      random,
    );
  }
}

/** Low banks of mist on the far shore that drift up the valley. */
function paintMist({ canvas, noise, horizon, sky }) {
  const { width, height } = canvas;
  const reach = Math.round(height * 0.16);
  for (let y = horizon - reach; y <= horizon; y++) {
    const v = (horizon - y) / reach;
    for (let x = 0; x < width; x++) {
      const u = x / width;
      const bank = noise.fbm(u * 5 + 7, v * 4.2 + u * 0.6, 5);
      const streak = noise.fbm(u * 9 + 30, v * 20, 4);
      const thick = smoothstep(-0.2, 0.5, bank + 0.35 * streak) * Math.exp(-(((v - 0.2 - 0.14 * bank) / 0.2) ** 2));
      blend(canvas, x, y, mix(sky(u, 0.08), [1, 0.95, 0.95], 0.12), clamp(thick * 0.62));
    }
  }
}

/** The lake: a mirror that small waves stretch downwards, darker and bluer at steep angles. */
function paintWater({ canvas, noise, horizon, mood }) {
  const { width, height, data } = canvas;
  const deep = colour(mood.stars > 0 ? '#0a1530' : '#24506e');
  const depth = height - horizon;
  for (let y = horizon + 1; y < height; y++) {
    const near = (y - horizon) / depth;
    const farness = 1 / (near + 0.015);
    for (let x = 0; x < width; x++) {
      const u = x / width - 0.5;
      const wave = noise.fbm(u * farness * 9 + 5, farness * 34, 4);
      const swell = noise.fbm(u * 3 + 60, near * 5 + 8, 4);
      const calm = smoothstep(0.16, -0.2, swell);
      const sway = wave * (1.2 + near * 60 * (1 - 0.65 * calm)) * (height / 1600);
      const mirrored = clamp(Math.round(horizon - (y - horizon) * 1.02 + sway * 1.5), 0, horizon - 1);
      const across = clamp(Math.round(x + sway * 0.35), 0, width - 1);
      const from = (mirrored * width + across) * 3;
      const mirror = 0.86 - 0.4 * near + 0.1 * wave - 0.1 * (1 - calm);
      blend(canvas, x, y, [data[from], data[from + 1], data[from + 2]], 1);
      blend(canvas, x, y, deep, clamp(1 - mirror));
    }
  }
  for (let x = 0; x < width; x++) {
    const line = horizon + 1 + Math.round(1.2 * noise.fbm((x / width) * 14, 50, 3));
    for (let y = horizon - 1; y <= line; y++) blend(canvas, x, y, colour('#0b1018'), 0.5);
  }
}

/** Tall trees at both edges, close to the camera: they frame the view. */
function paintConifers({ canvas, random }) {
  const { width, height } = canvas;
  const bark = colour('#05080d');
  for (let i = 0; i < 26; i++) {
    const side = i % 2 === 0 ? 0 : 1;
    const inward = random() ** 1.7 * (side === 0 ? 0.2 : 0.15);
    const x = (side === 0 ? inward - 0.02 : 1.02 - inward) * width;
    const tall = height * (0.2 + 0.46 * random() * (1 - inward * 4.2)) * (side === 0 ? 1 : 0.85);
    conifer(canvas, x, height * (0.94 + 0.1 * random()), Math.max(tall, height * 0.1), bark, random);
  }
  const noise = createNoise(31);
  for (let x = 0; x < width; x++) {
    const u = x / width;
    const bank = 0.025 + 0.1 * (smoothstep(0.34, 0, u) + smoothstep(0.72, 1, u)) + 0.022 * noise.fbm(u * 12, 3, 6);
    const grass = 0.012 * Math.abs(noise.sample(u * 420, 9)) * Math.abs(noise.sample(u * 60, 4));
    const edge = height * (1 - bank - grass);
    for (let y = Math.floor(edge); y < height; y++) blend(canvas, x, y, bark, clamp(y - edge));
  }
}

/** A conifer as a silhouette: tiers of drooping branches, ragged at the edge. (`x`, `foot`) is the foot of its stem. */
function conifer(canvas, x, foot, tall, paint, random) {
  const spread = tall * (0.17 + 0.06 * random());
  const tiers = Math.max(3, Math.round(9 + tall / 38));
  const lean = (random() - 0.5) * 0.03 * tall;
  const phase = random() * 10;
  const first = Math.max(0, Math.floor(foot - tall));
  for (let y = first; y < Math.min(canvas.height, foot); y++) {
    const down = (y - (foot - tall)) / tall;
    const tier = down ** 0.82 * tiers;
    const droop = tier - Math.floor(tier);
    for (const side of [-1, 1]) {
      const uneven = 0.62 + 0.38 * Math.sin(Math.floor(tier) * 12.9898 + side * 4.1 + phase);
      const ragged = 1 + 0.34 * (random() - 0.5);
      const half = Math.max(tall * 0.004, spread * down ** 0.8 * (0.34 + 0.66 * droop ** 1.2) * uneven * ragged);
      const trunk = x + lean * (1 - down);
      const reach = Math.ceil(half) + 1;
      for (let i = side < 0 ? 1 : 0; i <= reach; i++) {
        const px = Math.round(trunk) + side * i;
        if (px < 0 || px >= canvas.width) continue;
        blend(canvas, px, y, paint, clamp(half - Math.abs(px - trunk) + 0.5));
      }
    }
  }
}
