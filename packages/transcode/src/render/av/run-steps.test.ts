import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { identifyForTests } from '../../../test/identify-for-tests.ts';
import { scratch } from '../../../test/scratch.ts';
import { clipMaker, picture, programsForTests } from '../../../test/video-clips.ts';
import type { Programs } from '../../ffmpeg/programs.ts';
import type { IdentifiedFile, Tracks } from '../../identified.ts';
import { defaultLimits } from '../../limits.ts';
import { type PlannedRendition, planRenditions } from '../../plan.ts';
import { defaultPresets } from '../../presets/presets.ts';
import type { ReadyRendition, RenderProgress } from '../result.ts';
import { runSteps } from './run-steps.ts';
import type { Step } from './step.ts';

const files = scratch();
let programs: Programs;
let path: string;
let source: IdentifiedFile & { readonly tracks: Tracks };
let wanted: PlannedRendition[];

beforeAll(async () => {
  programs = await programsForTests();
  path = clipMaker(programs, files.folder)('clip.mp4', ...picture('64x36', 1), '-c:v', 'libx264');
  const identified = identifyForTests(path, programs);
  if (identified.tracks === null) throw new Error('A clip has tracks.');
  source = { ...identified, tracks: identified.tracks };
  wanted = planRenditions(identified, defaultPresets)
    .filter(({ state }) => state === 'make')
    .slice(0, 3);
});

/** The three renditions to make. */
function three(): [PlannedRendition, PlannedRendition, PlannedRendition] {
  const [first, second, third] = wanted;
  if (!first || !second || !third) throw new Error('Expected three renditions.');
  return [first, second, third];
}

function made({ name, extension, revision }: PlannedRendition): ReadyRendition {
  return {
    ...{ name, extension, revision, state: 'ready', path: 'somewhere', bytes: 1, width: 1, height: 1, frames: 1 },
    ...{ durationMs: null, files: null, notes: [] },
  };
}

const endless = ['-f', 'lavfi', '-re', '-i', 'testsrc2', '-f', 'null', '-'];

function run(steps: readonly Step[], more: { signal?: AbortSignal; onProgress?: (p: RenderProgress) => void } = {}) {
  const outDir = files.outDir();
  const result = runSteps(path, source, steps, wanted, outDir, { limits: defaultLimits, programs, ...more });
  return { outDir, result };
}

test('a step that fails loses only its own unfinished renditions', async () => {
  const [a, b, c] = three();
  const { result, outDir } = run([
    {
      ...{ name: 'bad', renditions: [a, b], weight: 1 },
      async run(context) {
        writeFileSync(join(context.scratch, 'half'), 'made');
        context.finish(a, made(a));
        await context.ffmpeg(['-i', join(context.scratch, 'nothing.mp4'), '-f', 'null', '-']);
      },
    },
    { name: 'good', renditions: [c], weight: 1, run: async (context) => context.finish(c, made(c)) },
  ]);
  const { renditions, runs } = await result;
  expect(renditions.map(({ state }) => state)).toEqual(['ready', 'failed', 'ready']);
  expect(renditions[1]).toMatchObject({
    code: 'corrupt_media',
    reason: expect.stringMatching(
      /^\S+ could not be made: the source could not be decoded\. It seems to be damaged .*again\.$/,
    ),
  });
  expect(readdirSync(outDir)).toEqual([]);
  expect(runs).toHaveLength(1);
  const reported = JSON.stringify([runs, renditions[1]]);
  expect(reported).toContain('SCRATCH/nothing.mp4');
  expect(reported).not.toContain(files.folder);
});

test('every rendition has a result, even if its step forgets it or no step makes it', async () => {
  const [a, b, c] = three();
  const { result } = run([
    { name: 'forgetful', renditions: [a, b], weight: 1, run: async (context) => context.finish(a, made(a)) },
  ]);
  const { renditions } = await result;
  expect(renditions.map(({ name, extension, state }) => `${name}.${extension} ${state}`)).toEqual([
    `${a.name}.${a.extension} ready`,
    `${b.name}.${b.extension} failed`,
    `${c.name}.${c.extension} failed`,
  ]);
});

test('progress is weighted, never decreases, and ends at 1', async () => {
  const [a, b, c] = three();
  const seen: number[] = [];
  const step = (planned: PlannedRendition, weight: number, fractions: readonly number[]): Step => ({
    ...{ name: planned.name, renditions: [planned], weight },
    async run(context) {
      for (const fraction of fractions) context.progress(fraction);
      context.finish(planned, made(planned));
    },
  });
  const { result } = run([step(a, 1, [0.5, 0.2, 7]), step(b, 3, [0, 0.5, 0.4]), step(c, 0, [1])], {
    onProgress: ({ fraction }) => seen.push(fraction),
  });
  await result;
  expect([...seen].sort((x, y) => x - y)).toEqual(seen);
  expect(seen).toContain(0.125);
  expect(seen).toContain(0.625);
  expect(seen.at(-1)).toBe(1);
});

test('an abort kills the running program, starts no other step, and rejects', async () => {
  const [a, b] = three();
  const controller = new AbortController();
  let started = false;
  const { result, outDir } = run(
    [
      { name: 'endless', renditions: [a], weight: 1, run: async (context) => void (await context.ffmpeg(endless)) },
      {
        ...{ name: 'next', renditions: [b], weight: 1 },
        async run() {
          started = true;
        },
      },
    ],
    { signal: controller.signal },
  );
  setTimeout(() => controller.abort(), 300);
  const began = Date.now();
  await expect(result).rejects.toMatchObject({ name: 'RenderError', code: 'aborted', retryable: true });
  expect(Date.now() - began).toBeLessThan(20_000);
  expect(started).toBe(false);
  expect(readdirSync(outDir)).toEqual([]);
});

test('a render that is aborted before its start makes nothing', async () => {
  const [a] = three();
  let started = false;
  const { result } = run(
    [
      {
        ...{ name: 'first', renditions: [a], weight: 1 },
        async run() {
          started = true;
        },
      },
    ],
    { signal: AbortSignal.abort() },
  );
  await expect(result).rejects.toMatchObject({ code: 'aborted' });
  expect(started).toBe(false);
});
