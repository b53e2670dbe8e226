import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { lavfi, renderedClips } from '../../../test/rendered-clips.ts';

const { clip, render, folder } = renderedClips();
const rungs = [{ name: '90p', width: 160, height: 90, bitrate: 150_000 }];
const presets = [
  { type: 'mp4', name: 'mp4', width: 160, height: 90, bitrate: 500_000 },
  { type: 'hls', rungs, segment_seconds: 2 },
  { name: 'poster', container: 'jpeg', source_kinds: ['video'], width: 160 },
];

const transparentClip = () =>
  clip(
    'alpha.webm',
    ...lavfi('testsrc2=s=160x90:r=25:d=4,format=yuva420p,geq=lum=lum(X\\,Y):cb=cb(X\\,Y):cr=cr(X\\,Y):a=128'),
    ...['-c:v', 'libvpx-vp9', '-pix_fmt', 'yuva420p', '-deadline', 'realtime', '-cpu-used', '8', '-g', '1000'],
  );

test('a damaged VP9 with transparency plays to its end without it, with a warning', async () => {
  const bytes = readFileSync(transparentClip());
  const at = Math.floor(bytes.length * 0.1);
  bytes.fill(0xa5, at, at + 40);
  const path = join(folder, 'damaged.webm');
  writeFileSync(path, bytes);
  const { result } = await render(path, presets);
  expect(result.renditions.map(({ state }) => state)).toEqual(['ready', 'ready', 'ready']);
  const [mp4] = result.renditions;
  expect(mp4).toMatchObject({ durationMs: 4_000, frames: 100 });
  expect(result.warnings).toEqual(['Parts of the video are damaged; it is shown without its transparency.']);
});

test('an intact VP9 keeps its transparency, which is laid over black', async () => {
  const { result } = await render(transparentClip(), presets);
  expect(result.warnings).toEqual([]);
  const ladder = result.runs.find(({ step, argv }) => step === 'ladder' && argv.includes('-filter_complex'));
  expect(ladder?.argv.join(' ')).toMatch(/libvpx-vp9.*premultiply/);
});
