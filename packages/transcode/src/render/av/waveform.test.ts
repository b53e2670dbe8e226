import { expect, test } from 'vitest';
import { lavfi, renderedClips } from '../../../test/rendered-clips.ts';
import { sharp } from '../../vips.ts';
import type { WaveformData } from './waveform-files.ts';
import { createPeakCollector, joinPeaks } from './waveform-peaks.ts';

const { clip, render } = renderedClips();

const peaks = { type: 'waveform', name: 'waveform', container: 'json' };
const picture = { type: 'waveform', name: 'waveform', container: 'webp', width: 600, height: 100 };

async function dataOf(path: string, preset: object = peaks): Promise<WaveformData> {
  const rendered = await render(path, [preset]);
  rendered.only();
  return JSON.parse(rendered.of('waveform.json').toString('utf8')) as WaveformData;
}

test('peaks and image of a waveform come from one decode, in the format of players', async () => {
  const path = clip('tone.wav', ...lavfi("aevalsrc=exprs='if(lt(t,2),0,0.5*sin(2*PI*100*t))':s=8000:d=4"));
  const { result, of } = await render(path, [peaks, picture]);
  expect(result.runs).toHaveLength(1);
  expect(result.renditions).toMatchObject([
    { state: 'ready', width: 0, height: 0 },
    { state: 'ready', width: 600, height: 100 },
  ]);
  const data = JSON.parse(of('waveform.json').toString('utf8')) as WaveformData;
  expect(Object.keys(data)).toEqual([
    ...['version', 'channels', 'sample_rate', 'samples_per_pixel', 'bits', 'length', 'data'],
  ]);
  // 32,000 samples are at most 2,000 pairs of 16 samples each.
  expect(data).toMatchObject({ version: 2, channels: 1, sample_rate: 8_000, samples_per_pixel: 16, bits: 8 });
  expect([data.length, data.data.length]).toEqual([2_000, 4_000]);
  expect(new Set(data.data.slice(0, 2_000))).toEqual(new Set([0]));
  // Half of full scale is 64 of 128; a period of 80 samples covers five pairs.
  const loud = data.data.slice(2_000);
  expect([Math.min(...loud), Math.max(...loud)]).toEqual([-64, 64]);

  const { data: pixels, info } = await sharp(of('waveform.webp')).raw().toBuffer({ resolveWithObject: true });
  expect(info).toMatchObject({ width: 600, height: 100, channels: 4 });
  const column = (x: number) => Array.from({ length: 100 }, (_, y) => pixels[(y * 600 + x) * 4 + 3] ?? 0);
  const inked = (x: number) => column(x).filter((alpha) => alpha > 128).length;
  expect(inked(100)).toBeLessThanOrEqual(2);
  // All periods are wider than a column here, so each column shows part of the wave, and five together show all of it.
  const full = [400, 401, 402, 403, 404, 405].flatMap((x) => column(x).flatMap((alpha, y) => (alpha > 128 ? [y] : [])));
  expect([Math.min(...full), Math.max(...full)]).toEqual([25, 74]);
  const at = (50 * 600 + 400) * 4;
  expect(Math.abs((pixels[at + 2] ?? 0) - 0xf6)).toBeLessThan(12);
});

test('every pair of a ramp has the lowest and highest of its own samples', async () => {
  const path = clip('ramp.wav', ...lavfi("aevalsrc=exprs='t-1':s=4000:d=2"), '-c:a', 'pcm_f32le');
  const { data, length, samples_per_pixel } = await dataOf(path, { ...peaks, points: 100 });
  expect([length, samples_per_pixel]).toEqual([100, 80]);
  for (let pair = 0; pair < length; pair++) {
    const sample = (n: number) => Math.trunc(Math.max(-32_768, Math.round((n / 4_000 - 1) * 32_768)) / 256);
    expect(Math.abs((data[pair * 2] ?? 0) - sample(pair * 80))).toBeLessThanOrEqual(1);
    expect(Math.abs((data[pair * 2 + 1] ?? 0) - sample(pair * 80 + 79))).toBeLessThanOrEqual(1);
  }
});

test('both channels of stereo audio count equally', async () => {
  const path = clip('sides.wav', ...lavfi('aevalsrc=exprs=0.5|0:s=8000:d=1'));
  const { data } = await dataOf(path);
  expect(new Set(data)).toEqual(new Set([32]));
});

test('very short audio has a waveform', async () => {
  const { length, samples_per_pixel, data } = await dataOf(clip('moment.wav', ...lavfi('sine=r=8000:d=0.005')));
  expect([length, samples_per_pixel, data.length]).toEqual([20, 2, 40]);
});

test('hours of audio need no more memory than their waveform, and lose no peak', () => {
  const collector = createPeakCollector();
  const piece = Buffer.alloc(1 << 16);
  const pieces = 400;
  for (let n = 0; n < pieces; n++) {
    piece.fill(0);
    piece.writeInt16LE(n, 0);
    // One at an even position and one at an odd, so that joining pairs can lose neither.
    if (n === 100) piece.writeInt16LE(23_456, 20_000);
    if (n === 250) piece.writeInt16LE(-12_345, 20_002);
    // Cut within a sample.
    collector.add(piece.subarray(0, 33_333));
    collector.add(piece.subarray(33_333));
  }
  const all = collector.finish();
  expect(all.samples).toBe((pieces * piece.length) / 2);
  expect(all.lowest.length).toBeLessThanOrEqual(65_536);
  expect(all.samplesPerBin * all.lowest.length).toBeGreaterThanOrEqual(all.samples);
  expect(Math.min(...all.lowest)).toBe(-12_345);
  const joined = joinPeaks(all, Math.ceil(all.lowest.length / 100));
  expect(Math.max(...joined.highest)).toBe(23_456);
  expect(joined.highest.indexOf(23_456)).toBe(Math.floor((100 * 32_768 + 10_000) / joined.samplesPerBin));
  expect(joined.highest.at(-1)).toBe(pieces - 1);
  expect(joined.lowest.indexOf(-12_345)).toBe(Math.floor((250 * 32_768 + 10_001) / joined.samplesPerBin));
});

test('the same audio gives the same waveform bytes', async () => {
  const path = clip('noise.flac', ...lavfi('anoisesrc=d=2:seed=4'));
  const [one, two] = [await render(path, [peaks, picture]), await render(path, [picture, peaks])];
  for (const name of ['waveform.json', 'waveform.webp']) expect(one.of(name).equals(two.of(name)), name).toBe(true);
});
