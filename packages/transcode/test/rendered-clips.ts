import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Programs } from '../src/ffmpeg/programs.ts';
import type { IdentifiedFile } from '../src/identified.ts';
import { defaultLimits } from '../src/limits.ts';
import { type PlannedRendition, planRenditions } from '../src/plan.ts';
import { parsePresets } from '../src/presets/presets.ts';
import { type AvRenderOptions, renderAv } from '../src/render/av/render-av.ts';
import type { ReadyRendition, RenderResult } from '../src/render/result.ts';
import { identifyForTests, plainEnvironment } from './identify-for-tests.ts';
import { scratch } from './scratch.ts';
import { programsForTests } from './video-clips.ts';

/** The programs for these tests. */
export const programs: Programs = await programsForTests();

/** Runs ffmpeg and returns standard output. */
export function ffmpeg(...argv: string[]): Buffer {
  return execFileSync(programs.ffmpeg.path, ['-v', 'error', '-nostdin', '-y', ...argv], {
    maxBuffer: 1 << 28,
    env: plainEnvironment,
  });
}

/** A filter graph as an input. */
export const lavfi = (graph: string): string[] => ['-f', 'lavfi', '-i', graph];

/** Options for a fast H.264 encode. */
export const x264 = ['-c:v', 'libx264', '-preset', 'ultrafast', '-pix_fmt', 'yuv420p', '-threads', '2'];

/** The result of a render, with ways to read it. */
export interface Rendered {
  readonly result: RenderResult;
  readonly folder: string;
  readonly plan: readonly PlannedRendition[];
  of(name: string): Buffer;
  /** The only rendition; throws with its reason if it failed. */
  only(): ReadyRendition;
}

/** Makes clips, each once per test file, and renders them as the engine does. */
export function renderedClips() {
  const { folder, outDir } = scratch();
  const made = new Map<string, string>();
  return {
    folder,
    clip(name: string, ...argv: string[]): string {
      const known = made.get(name);
      if (known !== undefined) return known;
      const path = join(folder, name);
      ffmpeg(...argv, path);
      made.set(name, path);
      return path;
    },
    async render(
      path: string,
      presets: readonly unknown[],
      options: Partial<AvRenderOptions> & { source?: Partial<IdentifiedFile> } = {},
    ): Promise<Rendered> {
      const { source: changes, ...rest } = options;
      const source = { ...identifyForTests(path, programs), ...changes };
      const plan = planRenditions(source, parsePresets(presets));
      const out = outDir();
      mkdirSync(out);
      const result = await renderAv(path, source, plan, out, { limits: defaultLimits, programs, ...rest });
      return {
        ...{ result, folder: out, plan },
        of: (name) => readFileSync(join(out, name)),
        only() {
          const [rendition] = result.renditions;
          if (rendition?.state !== 'ready') throw new Error(rendition?.reason ?? 'there is no rendition');
          return rendition;
        },
      };
    },
  };
}
