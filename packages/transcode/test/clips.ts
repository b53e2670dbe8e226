import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { findPrograms, type Programs } from '../src/ffmpeg/programs.ts';
import { defaultLimits } from '../src/limits.ts';
import { type PlannedRendition, planRenditions } from '../src/plan.ts';
import { type Preset, parsePresets } from '../src/presets/presets.ts';
import { type AvRenderOptions, renderAv } from '../src/render/av/render-av.ts';
import type { RenderResult } from '../src/render/result.ts';
import { identifyForTests } from './identify-for-tests.ts';
import { scratch } from './scratch.ts';

/** The programs that tests run: those of FFMPEG_PATH and FFPROBE_PATH, else those that the engine would find. */
export const programs: Programs = await findPrograms({
  ...{ ffmpeg: process.env['FFMPEG_PATH'], ffprobe: process.env['FFPROBE_PATH'] },
});

/** Runs ffmpeg and gives standard output. */
export function ffmpeg(...argv: string[]): Buffer {
  return execFileSync(programs.ffmpeg.path, ['-v', 'error', '-nostdin', '-y', ...argv], { maxBuffer: 1 << 28 });
}

/** What was rendered, and how to read it. */
export interface Rendered {
  readonly result: RenderResult;
  readonly folder: string;
  readonly plan: readonly PlannedRendition[];
  of(name: string): Buffer;
}

/** Makes clips, each once a test file, and renders them through the orchestrator. */
export function clips() {
  const { folder, outDir } = scratch();
  const made = new Map<string, string>();
  const clip = (name: string, ...argv: string[]): string => {
    const known = made.get(name);
    if (known !== undefined) return known;
    const path = join(folder, name);
    ffmpeg(...argv, path);
    made.set(name, path);
    return path;
  };
  const render = async (
    path: string,
    presets: readonly unknown[],
    options: Partial<AvRenderOptions> = {},
  ): Promise<Rendered> => {
    const source = identifyForTests(path, programs);
    const plan = planRenditions(source, parsePresets(presets) as Preset[]);
    const out = outDir();
    mkdirSync(out);
    const result = await renderAv(path, source, plan, out, { limits: defaultLimits, programs, ...options });
    return { result, folder: out, plan, of: (name) => readFileSync(join(out, name)) };
  };
  return { folder, clip, render };
}
