import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { colors, cuesOf, hueRgb, storyboard } from '../../../test/frames.ts';
import { identifyForTests } from '../../../test/identify-for-tests.ts';
import { furthest } from '../../../test/pictures.ts';
import { lavfi, programs, renderedClips, x264 } from '../../../test/rendered-clips.ts';
import { defaultLimits } from '../../limits.ts';
import type { PlannedRendition } from '../../plan.ts';
import { sharp } from '../../vips.ts';
import { renderAv } from './render-av.ts';

const { clip, render, folder } = renderedClips();

test('each storyboard tile shows its time, and the index covers the video without gaps', async () => {
  const path = clip(
    'colors.mp4',
    ...colors(6),
    '-filter_complex',
    'concat=n=6',
    ...x264,
    '-g',
    '75',
    '-sc_threshold',
    '0',
  );
  const { result, of, plan } = await render(path, storyboard);
  expect(result.renditions).toMatchObject([
    { state: 'ready', width: 640, height: 180 },
    { state: 'ready', width: 0, height: 0 },
  ]);
  const cues = cuesOf(of('storyboard.vtt').toString('utf8'));
  expect(cues.map(({ from, to }) => [from, to])).toEqual([0, 1, 2, 3, 4, 5].map((n) => [n * 1_000, n * 1_000 + 1_000]));
  const { data, info } = await sharp(of('storyboard.jpg')).raw().toBuffer({ resolveWithObject: true });
  for (const [index, { sprite, x, y, width, height }] of cues.entries()) {
    expect(sprite).toBe(`storyboard.${plan[0]?.revision}.jpg`);
    const at = ((y + height / 2) * info.width + x + width / 2) * 3;
    expect(furthest([[...data.subarray(at, at + 3)]], [hueRgb[index] ?? []]), `tile ${index}`).toBeLessThan(24);
  }
});

test('a storyboard index fails with its sprite, so players request no missing image', async () => {
  const path = clip('undecoded.mp4', ...lavfi('testsrc2=s=160x90:r=25:d=2'), ...x264);
  const broken = join(folder, 'ffmpeg-that-fails');
  writeFileSync(broken, '#!/bin/sh\nexit 1\n', { mode: 0o755 });
  const none = { ...programs, ffmpeg: { ...programs.ffmpeg, path: broken } };
  for (const presets of [storyboard, [...storyboard].reverse()]) {
    const { result, folder: made } = await render(path, presets, { programs: none });
    expect(result.renditions).toMatchObject([
      { state: 'failed', code: 'corrupt_media' },
      { state: 'failed', code: 'corrupt_media' },
    ]);
    expect(readdirSync(made)).toEqual([]);
  }
});

test('the index of a storyboard is made alone only if its sprite exists', async () => {
  const path = clip('indexed.mp4', ...lavfi('testsrc2=s=160x90:r=25:d=2'), ...x264);
  const { plan, result: both } = await render(path, storyboard);
  expect(both.renditions).toMatchObject([{ state: 'ready' }, { state: 'ready' }]);
  const [sprite, index] = plan;
  if (!sprite || !index) throw new Error('Expected two planned renditions.');
  const source = identifyForTests(path, programs);
  const alone = (beside: readonly PlannedRendition[]) =>
    renderAv(path, source, [index], join(folder, `index-${beside.length}`), {
      limits: defaultLimits,
      programs,
      beside,
    });
  expect((await alone([sprite])).renditions).toMatchObject([{ state: 'ready', extension: 'vtt' }]);
  expect((await alone([])).renditions).toMatchObject([
    { state: 'failed', reason: expect.stringMatching(/its sprite is not made/) },
  ]);
});
