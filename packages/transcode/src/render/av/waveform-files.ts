import type { Sharp } from 'sharp';
import type { WaveformPeaksPreset, WaveformPicturePreset } from '../../presets/audio.ts';
import { sharp } from '../../vips.ts';
import { joinPeaks, type Peaks, rangeOf } from './waveform-peaks.ts';

/**
 * The waveform data format of BBC's audiowaveform, version 2, as JSON (its doc/DataFormat.md): pairs of the lowest and highest
 * sample of one channel, 8 bits each.
 */
export interface WaveformData {
  readonly version: 2;
  readonly channels: 1;
  readonly sample_rate: number;
  readonly samples_per_pixel: number;
  readonly bits: 8;
  /** Number of pairs. */
  readonly length: number;
  readonly data: readonly number[];
}

/** The minimum of audiowaveform itself. */
const minSamplesPerPixel = 2;

/** At most `points` pairs, and hardly fewer unless the audio is very short. */
export function waveformData(peaks: Peaks, sampleRate: number, { points }: WaveformPeaksPreset): WaveformData {
  const factor = Math.max(Math.ceil(peaks.lowest.length / points), minSamplesPerPixel / peaks.samplesPerBin);
  const { samplesPerBin, lowest, highest } = joinPeaks(peaks, Math.max(1, factor));
  const data: number[] = [];
  // 16 bits to 8, as audiowaveform does it: divided, and truncated towards zero.
  for (const [bin, low] of lowest.entries()) data.push(eightBits(low), eightBits(highest[bin] ?? 0));
  return {
    ...{ version: 2, channels: 1, sample_rate: sampleRate, samples_per_pixel: samplesPerBin, bits: 8 },
    length: lowest.length,
    data,
  };
}

function eightBits(sample: number): number {
  // `+ 0` turns a negative zero into a plain one.
  return Math.trunc(sample / 256) + 0;
}

/** The waveform as an image: in each column a bar from the lowest to the highest sample, at least one pixel, transparent around. */
export function waveformPicture(peaks: Peaks, { width, height, color }: WaveformPicturePreset): Sharp {
  const [red, green, blue] = [1, 3, 5].map((at) => Number.parseInt(color.slice(at, at + 2), 16));
  const data = Buffer.alloc(width * height * 4);
  // All pixels get the colour, so that soft edges do not darken towards transparent ones.
  for (let at = 0; at < data.length; at += 4) data.set([red ?? 0, green ?? 0, blue ?? 0], at);
  const bins = peaks.lowest.length;
  for (let x = 0; x < width; x++) {
    const from = Math.min(bins - 1, Math.floor((x * bins) / width));
    const [low, high] = rangeOf(peaks, from, Math.max(from + 1, Math.floor(((x + 1) * bins) / width)));
    const y = (sample: number) => ((1 - sample / 32_768) * height) / 2;
    const middle = (y(low) + y(high)) / 2;
    const half = Math.max(0.5, (y(low) - y(high)) / 2);
    const top = Math.min(Math.max(0, middle - half), height - 1);
    const bottom = Math.max(top + 1, Math.min(height, middle + half));
    for (let row = Math.floor(top); row < Math.ceil(bottom); row++) {
      const covered = Math.min(bottom, row + 1) - Math.max(top, row);
      data[(row * width + x) * 4 + 3] = Math.round(255 * covered);
    }
  }
  return sharp(data, { raw: { width, height, channels: 4 }, limitInputPixels: false });
}
