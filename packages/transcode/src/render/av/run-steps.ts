import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { RenderError } from '../../errors.ts';
import type { Program, Programs } from '../../ffmpeg/programs.ts';
import { ProgramError, type RunLimits, type RunOptions, runProgram } from '../../ffmpeg/run.ts';
import type { IdentifiedFile, Tracks } from '../../identified.ts';
import type { EngineLimits } from '../../limits.ts';
import type { PlannedRendition } from '../../plan.ts';
import type { ProgramRun } from '../program-run.ts';
import type { FailedRendition, ProgramRunUpdate, ReadyRendition, RenderProgress, RenderResult } from '../result.ts';
import { failedRendition } from './failure.ts';
import { damagedSound, soundDamageListener } from './sound-damage.ts';
import type { Step, StepContext } from './step.ts';

export interface AvRenderOptions {
  limits: EngineLimits;
  programs: Programs;
  onProgress?: (progress: RenderProgress) => void;
  /** Planned renditions of the source that are there already: what is made becomes what it would be if they were made, too. */
  beside?: readonly PlannedRendition[];
  onRun?: (update: ProgramRunUpdate) => void;
  signal?: AbortSignal;
}

/** Small processor time adds up over runs; what no honest run of these options needs. */
const baseWallMs = 5 * 60_000;
/** Encoders on a slow, busy machine: thirty times as long as the video plays. */
const wallPerSecondOfMedia = 30_000;
const stallMs = 120_000;
const cores = 64;
/**
 * Each line of what ffmpeg says with its level. However much of a source does not decode, what does is made and the rest is
 * warned of: by itself ffmpeg would fail where it is two thirds.
 */
const always = ['-hide_banner', '-nostdin', '-loglevel', 'level+warning', '-max_error_rate', '1', '-y'];

/**
 * Takes the steps one after another: each is a few runs of ffmpeg, which uses all cores by itself. What fails alone is reported
 * as failed; the others are made. `wanted`: what the steps make together, in the order of the result.
 * @throws RenderError where the render was aborted
 */
export async function runSteps(
  path: string,
  source: IdentifiedFile & { readonly tracks: Tracks },
  steps: readonly Step[],
  wanted: readonly PlannedRendition[],
  outDir: string,
  options: AvRenderOptions,
): Promise<RenderResult> {
  const { limits, programs, signal } = options;
  const began = performance.now();
  const results = new Map<PlannedRendition, ReadyRendition | FailedRendition>();
  const runs: ProgramRun[] = [];
  let begun = 0;
  const warnings = new Set<string>();
  const timings: Record<string, number> = {};
  let thumbhash: string | null = null;

  const weightOfAll = steps.reduce((sum, { weight }) => sum + weight, 0);
  let weightDone = 0;
  let fraction = 0;
  const report = (within: number, weight: number, rendition: RenderProgress['rendition']) => {
    const reached = weightOfAll === 0 ? 1 : (weightDone + weight * Math.min(1, Math.max(0, within))) / weightOfAll;
    fraction = Math.max(fraction, reached);
    options.onProgress?.({ done: results.size, total: wanted.length, fraction, rendition });
  };

  const perform = async (step: Step): Promise<void> => {
    const scratch = await mkdtemp(join(outDir, '.step-'));
    let within = 0;
    const run = async (program: Program, argv: readonly string[], runOptions: Partial<RunOptions>): Promise<Buffer> => {
      const cwd = await mkdtemp(join(scratch, '.cwd-'));
      const number = begun++;
      const sound = soundDamageListener();
      const tell = (standing: ProgramRun) => options.onRun?.({ number, run: standing });
      const keep = (ended: ProgramRun) => {
        runs.push(ended);
        tell(ended);
      };
      try {
        const outcome = await runProgram(program, argv, {
          step: step.name,
          cwd,
          limits: runLimits(source, limits),
          hide: { [path]: 'SOURCE', [scratch]: 'SCRATCH', [outDir]: 'OUT' },
          signal,
          onStanding: tell,
          onComplaint: argv.includes(path) ? sound.hear : undefined,
          ...runOptions,
        });
        keep(outcome.run);
        return outcome.stdout;
      } catch (error) {
        if (error instanceof ProgramError) keep(error.run);
        throw error;
      } finally {
        if (sound.damaged) warnings.add(damagedSound);
      }
    };
    const context: StepContext = {
      ...{ path, source, limits, scratch, outDir, signal, programs },
      ffmpeg: (argv, runOptions = {}) => run(programs.ffmpeg, [...always, ...argv], runOptions),
      ffprobe: (argv, runOptions = {}) =>
        run(programs.ffprobe, ['-hide_banner', '-loglevel', 'error', ...argv], runOptions),
      progress(reached) {
        within = Math.max(within, reached);
        report(within, step.weight, null);
      },
      finish(planned, rendition) {
        results.set(planned, rendition);
        report(within, step.weight, rendition);
      },
      warn: (sentence) => warnings.add(sentence),
      represent(hash) {
        thumbhash = hash;
      },
    };
    const start = performance.now();
    try {
      await step.run(context);
      for (const planned of step.renditions) {
        if (!results.has(planned))
          context.finish(planned, failedRendition(planned, new Error('its step left it out.')));
      }
    } catch (error) {
      if (signal?.aborted) throw new RenderError('aborted', 'The render was aborted.', { cause: error, runs });
      for (const planned of step.renditions) {
        if (!results.has(planned)) context.finish(planned, failedRendition(planned, error));
      }
    } finally {
      timings[step.name] = Math.round(performance.now() - start);
      weightDone += step.weight;
      report(0, 0, null);
      await rm(scratch, { recursive: true, force: true });
    }
  };

  await mkdir(outDir, { recursive: true });
  for (const step of steps) {
    if (signal?.aborted) throw new RenderError('aborted', 'The render was aborted.', { runs });
    await perform(step);
  }

  return {
    renditions: wanted.map(
      (planned) => results.get(planned) ?? failedRendition(planned, new Error('no step makes it.')),
    ),
    thumbhash,
    warnings: [...warnings],
    runs,
    timings: { ...timings, total: Math.round(performance.now() - began) },
  };
}

function runLimits(source: IdentifiedFile, limits: EngineLimits): RunLimits {
  const wallMs = baseWallMs + Math.ceil((source.durationMs ?? 0) / 1_000) * wallPerSecondOfMedia;
  return { wallMs, cpuMs: wallMs * cores, memoryBytes: limits.maxMemoryBytes, stallMs };
}
