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
import { audioDamageWarning, createAudioDamageDetector } from './audio-damage.ts';
import { failedRendition } from './failure.ts';
import type { Step, StepContext } from './step.ts';

export interface AvRenderOptions {
  limits: EngineLimits;
  programs: Programs;
  onProgress?: (progress: RenderProgress) => void;
  /** Planned renditions that exist already. The new ones get the same bytes as if all were made together. */
  beside?: readonly PlannedRendition[];
  onRun?: (update: ProgramRunUpdate) => void;
  signal?: AbortSignal;
}

/** Minimum wall-clock limit of a run; real runs need far less. */
const baseWallMs = 5 * 60_000;
/** Encoders on a slow, busy machine: thirty times the duration of the video. */
const wallPerSecondOfMedia = 30_000;
const stallMs = 120_000;
const cores = 64;
/**
 * Every line of ffmpeg has its level. With this error rate, all decodable parts of a source are used and the rest gives a
 * warning. By default, ffmpeg would fail if two thirds are undecodable.
 */
const commonOptions = ['-hide_banner', '-nostdin', '-loglevel', 'level+warning', '-max_error_rate', '1', '-y'];

/**
 * Runs the steps one after another; each is a few runs of ffmpeg, which uses all cores by itself. A step that fails is reported;
 * the others still run. `wanted`: all renditions of the steps, in the order of the result.
 * @throws RenderError if the render was aborted
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
  let runCount = 0;
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
      const number = runCount++;
      const audioDamage = createAudioDamageDetector();
      const reportRun = (current: ProgramRun) => options.onRun?.({ number, run: current });
      const recordRun = (ended: ProgramRun) => {
        runs.push(ended);
        reportRun(ended);
      };
      try {
        const outcome = await runProgram(program, argv, {
          step: step.name,
          cwd,
          limits: runLimits(source, limits),
          hide: { [path]: 'SOURCE', [scratch]: 'SCRATCH', [outDir]: 'OUT' },
          signal,
          onUpdate: reportRun,
          onStderrLine: argv.includes(path) ? audioDamage.readLine : undefined,
          ...runOptions,
        });
        recordRun(outcome.run);
        return outcome.stdout;
      } catch (error) {
        if (error instanceof ProgramError) recordRun(error.run);
        throw error;
      } finally {
        if (audioDamage.found) warnings.add(audioDamageWarning);
      }
    };
    const context: StepContext = {
      ...{ path, source, limits, scratch, outDir, signal, programs },
      ffmpeg: (argv, runOptions = {}) => run(programs.ffmpeg, [...commonOptions, ...argv], runOptions),
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
      setThumbhash(hash) {
        thumbhash = hash;
      },
    };
    const start = performance.now();
    try {
      await step.run(context);
      for (const planned of step.renditions) {
        if (!results.has(planned))
          context.finish(planned, failedRendition(planned, new Error('its step did not finish it.')));
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
