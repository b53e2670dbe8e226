/** A seeded generator of numbers from 0 up to 1 (mulberry32): the same seed always paints the same picture. */
export function createRandom(/** @type {number} */ seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** Numbers with a bell curve of mean 0 and deviation 1 (Box and Muller). */
export function createNormal(/** @type {number} */ seed) {
  const random = createRandom(seed);
  return () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}

/**
 * Value noise on a lattice of 256 x 256, smooth to the second derivative, from -1 to 1.
 * @param {number} seed
 */
export function createNoise(seed) {
  const random = createRandom(seed);
  const order = Uint8Array.from({ length: 256 }, (_, i) => i);
  for (let i = 255; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [order[i], order[j]] = [order[j], order[i]];
  }
  const perm = new Uint8Array(512);
  for (let i = 0; i < 512; i++) perm[i] = order[i & 255];
  const height = Float64Array.from({ length: 256 }, () => random() * 2 - 1);

  /** The noise and its slopes are left in here: one object for millions of calls. */
  const at = { value: 0, dx: 0, dy: 0 };

  function sample(/** @type {number} */ x, /** @type {number} */ y) {
    const xi = Math.floor(x);
    const yi = Math.floor(y);
    const fx = x - xi;
    const fy = y - yi;
    const row0 = perm[yi & 255];
    const row1 = perm[(yi + 1) & 255];
    const a = height[perm[(xi & 255) + row0]];
    const b = height[perm[((xi + 1) & 255) + row0]];
    const c = height[perm[(xi & 255) + row1]];
    const d = height[perm[((xi + 1) & 255) + row1]];
    const ux = fx * fx * fx * (fx * (fx * 6 - 15) + 10);
    const uy = fy * fy * fy * (fy * (fy * 6 - 15) + 10);
    const cross = a - b - c + d;
    at.value = a + (b - a) * ux + (c - a) * uy + cross * ux * uy;
    at.dx = 30 * fx * fx * (fx * (fx - 2) + 1) * (b - a + cross * uy);
    at.dy = 30 * fy * fy * (fy * (fy - 2) + 1) * (c - a + cross * ux);
    return at.value;
  }

  /** Octaves of noise summed, each of twice the frequency and half the height; about -1 to 1. */
  function fbm(/** @type {number} */ x, /** @type {number} */ y, octaves = 5) {
    let sum = 0;
    let amplitude = 0.5;
    let px = x;
    let py = y;
    for (let i = 0; i < octaves; i++) {
      sum += amplitude * sample(px, py);
      amplitude *= 0.5;
      const turned = 1.6 * px - 1.2 * py;
      py = 1.2 * px + 1.6 * py;
      px = turned;
    }
    return sum;
  }

  /**
   * Octaves that fade where the ground is steep already, which looks like erosion (Inigo Quilez, "Elevated", 2009).
   * About -0.5 to 1.
   */
  function eroded(/** @type {number} */ x, /** @type {number} */ y, octaves = 8) {
    let sum = 0;
    let amplitude = 1;
    let slopeX = 0;
    let slopeY = 0;
    let px = x;
    let py = y;
    for (let i = 0; i < octaves; i++) {
      sample(px, py);
      slopeX += at.dx;
      slopeY += at.dy;
      sum += (amplitude * at.value) / (1 + slopeX * slopeX + slopeY * slopeY);
      amplitude *= 0.5;
      const turned = 1.6 * px - 1.2 * py;
      py = 1.2 * px + 1.6 * py;
      px = turned;
    }
    return sum;
  }

  return { sample, fbm, eroded };
}
