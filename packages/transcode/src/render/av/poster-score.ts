import type { RawPixels } from '../../heic.ts';

/** How well a frame represents its video. */
export interface FrameScore {
  /** 0 to 1, higher is better. Only for comparing frames of one video. */
  readonly score: number;
  /** Not black, white, faded or of a single colour, so no other frame is needed. */
  readonly good: boolean;
}

const goodScore = 0.35;
/** Mean brightness, of 255, below which a picture is dark, and above which it is too bright. */
const dark = 40;
const glaring = 225;

/**
 * Scores a small frame by three criteria. Its brightness should have high entropy, unlike that of black, white or faded frames.
 * It should have many edges, unlike blurred and flat frames. It should be neither too dark nor too bright. Transparent pixels
 * count as black.
 */
export function scoreFrame({ data, width, height, channels }: RawPixels): FrameScore {
  const pixels = width * height;
  const luma = new Float32Array(pixels);
  const histogram = new Uint32Array(64);
  let sum = 0;
  for (let pixel = 0, at = 0; pixel < pixels; pixel++, at += channels) {
    const alpha = channels === 4 ? (data[at + 3] ?? 0) / 255 : 1;
    // ITU-R BT.709.
    const value = alpha * (0.2126 * (data[at] ?? 0) + 0.7152 * (data[at + 1] ?? 0) + 0.0722 * (data[at + 2] ?? 0));
    luma[pixel] = value;
    sum += value;
    const bin = Math.min(63, value >> 2);
    histogram[bin] = (histogram[bin] ?? 0) + 1;
  }
  const entropy = entropyOf(histogram, pixels) / 6;
  const edges = Math.min(1, meanStep(luma, width, height) / 12);
  const mean = sum / pixels;
  const exposure = mean < dark ? mean / dark : mean > glaring ? (255 - mean) / (255 - glaring) : 1;
  const score = (0.6 * entropy + 0.3 * edges) * (0.25 + 0.75 * exposure) + 0.1 * exposure;
  return { score, good: score >= goodScore && entropy > 0.25 };
}

/** Bits per pixel by the frequency of each value. */
function entropyOf(histogram: Uint32Array, total: number): number {
  let bits = 0;
  for (const count of histogram) if (count > 0) bits -= (count / total) * Math.log2(count / total);
  return bits;
}

/** Mean difference in brightness between each pixel and its right and lower neighbours. */
function meanStep(luma: Float32Array, width: number, height: number): number {
  let sum = 0;
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const here = luma[y * width + x] ?? 0;
      if (x + 1 < width) sum += Math.abs(here - (luma[y * width + x + 1] ?? 0));
      if (y + 1 < height) sum += Math.abs(here - (luma[(y + 1) * width + x] ?? 0));
    }
  }
  return sum / (2 * width * height);
}
