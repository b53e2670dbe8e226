import type { Programs } from '../../ffmpeg/programs.ts';
import type { RunOptions } from '../../ffmpeg/run.ts';
import type { IdentifiedFile, Tracks } from '../../identified.ts';
import type { EngineLimits } from '../../limits.ts';
import type { PlannedRendition } from '../../plan.ts';
import type { FailedRendition, ReadyRendition } from '../result.ts';

/** One piece of the work on a video or a sound: makes one or several renditions, with one or several runs of a program. */
export interface Step {
  /** `ladder`, `poster`. */
  readonly name: string;
  /** What it makes. */
  readonly renditions: readonly PlannedRendition[];
  /** Expected processor time, in any unit that is the same for all steps: for progress. */
  readonly weight: number;
  /**
   * Makes them, and says of each as soon as it is done what became of it. What throws is the fate of those that were not
   * spoken of yet.
   */
  run(context: StepContext): Promise<void>;
}

/** What a step has to work with. */
export interface StepContext {
  /** Absolute path of the source. */
  readonly path: string;
  readonly source: IdentifiedFile & { readonly tracks: Tracks };
  readonly limits: EngineLimits;
  /** Empty, and this step's alone; removed with all that is left in it when the step ends. */
  readonly scratch: string;
  /** Where renditions go: `name.extension`, or for those of several files a folder `name`. On the scratch's file system. */
  readonly outDir: string;
  /** Aborted by whoever no longer wants the renditions. */
  readonly signal: AbortSignal | undefined;
  /**
   * Runs ffmpeg in an empty working directory, under limits that follow from the source's duration, and reports the run.
   * `-nostdin -hide_banner -y` and the like are added; input options are the step's own: see `inputOptions`.
   * @returns standard output
   * @throws ProgramError
   */
  ffmpeg(
    argv: readonly string[],
    options?: Partial<Pick<RunOptions, 'onProgress' | 'onOutput' | 'maxOutputBytes'>>,
  ): Promise<Buffer>;
  /** The same for ffprobe. */
  ffprobe(argv: readonly string[], options?: Partial<Pick<RunOptions, 'onOutput' | 'maxOutputBytes'>>): Promise<Buffer>;
  readonly programs: Programs;
  /** How far this step is, 0 to 1. */
  progress(fraction: number): void;
  /** One of the step's renditions is done: its files are complete, read back, and in their places. */
  finish(planned: PlannedRendition, rendition: ReadyRendition | FailedRendition): void;
  /** Something of the source that its owner should know; a sentence. */
  warn(sentence: string): void;
  /** The picture that stands for the source, for its thumbhash: raw pixels or an encoded file. */
  represent(thumbhash: string): void;
}
