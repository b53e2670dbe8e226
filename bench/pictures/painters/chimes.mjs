import { createRandom } from './noise.mjs';

const SAMPLE_RATE = 44_100;

/** Partials of a struck bell: frequency as a multiple of the strike note, loudness, seconds until a third is left. */
const PARTIALS = [
  [0.5, 0.35, 2.6],
  [1, 0.6, 1.9],
  [1.2, 0.28, 1.3],
  [1.5, 0.18, 1],
  [2, 0.34, 0.8],
  [2.66, 0.12, 0.5],
  [3.01, 0.08, 0.35],
];

/** A minor pentatonic scale in hertz: any two of its bells sound well together. */
const SCALE = [220, 261.63, 293.66, 329.63, 392, 440, 523.25, 587.33, 659.26];

/**
 * Wind chimes over a low drone. Seeded.
 * @param {{ seconds: number, seed: number }} options
 * @returns {{ sampleRate: number, channels: 2, seconds: number, pcm: Buffer }} 16-bit little-endian, interleaved
 */
export function composeChimes({ seconds, seed }) {
  const random = createRandom(seed);
  const length = Math.round(seconds * SAMPLE_RATE);
  const left = new Float64Array(length);
  const right = new Float64Array(length);
  for (let at = 0.5; at < seconds - 1.2; at += 0.22 + 0.75 * random() ** 2) {
    const note = SCALE[Math.floor(random() * SCALE.length)];
    strike({ left, right }, { at, note, loudness: 0.1 + 0.22 * random(), pan: random(), random });
  }
  const drone = [110, 164.81, 220.4];
  for (let i = 0; i < length; i++) {
    const t = i / SAMPLE_RATE;
    const swell = 0.05 * (0.6 + 0.4 * Math.sin(t * 0.9)) * fade(t, seconds);
    for (const [voice, frequency] of drone.entries()) {
      left[i] += swell * Math.sin(2 * Math.PI * frequency * t + voice);
      right[i] += swell * Math.sin(2 * Math.PI * (frequency + 0.3) * t + voice * 1.7);
    }
  }
  const pcm = Buffer.alloc(length * 4);
  for (let i = 0; i < length; i++) {
    const gain = 0.8 * fade(i / SAMPLE_RATE, seconds);
    pcm.writeInt16LE(toSample(left[i] * gain), i * 4);
    pcm.writeInt16LE(toSample(right[i] * gain), i * 4 + 2);
  }
  return { sampleRate: SAMPLE_RATE, channels: 2, seconds, pcm };
}

function strike({ left, right }, { at, note, loudness, pan, random }) {
  const start = Math.round(at * SAMPLE_RATE);
  for (const [multiple, share, life] of PARTIALS) {
    const step = (2 * Math.PI * note * multiple * (1 + 0.002 * (random() - 0.5))) / SAMPLE_RATE;
    const phase = random() * 2 * Math.PI;
    const end = Math.min(left.length, start + Math.round(life * 4 * SAMPLE_RATE));
    for (let i = start; i < end; i++) {
      const age = (i - start) / SAMPLE_RATE;
      const attack = Math.min(1, age / 0.004);
      const value = loudness * share * attack * Math.exp(-age / life) * Math.sin(phase + step * (i - start));
      left[i] += value * Math.sqrt(1 - pan);
      right[i] += value * Math.sqrt(pan);
    }
  }
}

/** In over half a second, out over one and a half. */
function fade(t, seconds) {
  return Math.min(1, t / 0.5, Math.max(0, seconds - t) / 1.5);
}

/** Soft at the top, so that bells that meet do not clip. */
function toSample(value) {
  return Math.round(Math.tanh(value) * 32_767);
}
