import { expect, test } from 'vitest';
import { identifyForTests } from '../../../test/identify-for-tests.ts';
import { lavfi, programs, renderedClips, x264 } from '../../../test/rendered-clips.ts';
import { planRenditions } from '../../plan.ts';
import { defaultPresets } from '../../presets/presets.ts';
import { stepsOf } from './steps.ts';

const { clip } = renderedClips();

/** Share of all work that is expected before the ladder. */
function beforeLadder(size: string, seconds: number): number {
  const path = clip(`${size}.mp4`, ...lavfi(`testsrc2=s=${size}:r=25:d=0.4`), ...x264);
  const { tracks, ...identified } = identifyForTests(path, programs);
  if (tracks === null) throw new Error('A clip has tracks.');
  const source = { ...identified, durationMs: seconds * 1_000, tracks };
  const wanted = planRenditions(source, defaultPresets).filter(({ state }) => state === 'make');
  const weights = stepsOf(source, wanted).map(({ name, weight }) => ({ name, weight }));
  expect(weights.at(-1)?.name).toBe('ladder');
  const sum = weights.reduce((total, { weight }) => total + weight, 0);
  return 1 - (weights.at(-1)?.weight ?? 0) / sum;
}

test('progress during posters and storyboard matches their share of the work', () => {
  // Measured: 15 % of a 1080p video of 20 s, and nearly half of a clip of 3 s, which is mostly the start of programs.
  const shares = [beforeLadder('1920x1080', 20), beforeLadder('1920x1080', 3_600), beforeLadder('640x360', 3)];
  expect(shares[0]).toBeGreaterThan(0.1);
  expect(shares[0]).toBeLessThan(0.25);
  expect(shares[1]).toBeGreaterThan(0.05);
  expect(shares[1]).toBeLessThan(shares[0] ?? 0);
  expect(shares[2]).toBeGreaterThan(0.3);
});
