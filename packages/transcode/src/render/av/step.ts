import type { Programs } from '../../ffmpeg/programs.ts';
import type { RunOptions } from '../../ffmpeg/run.ts';
import type { IdentifiedFile, Tracks } from '../../identified.ts';
import type { EngineLimits } from '../../limits.ts';
import type { PlannedRendition } from '../../plan.ts';
import type { FailedRendition, ReadyRendition } from '../result.ts';

/** One piece of work on a video or audio file: makes one or more renditions with one or more runs of a program. */
export interface Step {
  /** `ladder`, `poster`. */
  readonly name: string;
  /** The renditions that it makes. */
  readonly renditions: readonly PlannedRendition[];
  /** Expected processor time, for progress, in a unit shared by all steps. */
  readonly weight: number;
  /** Makes its renditions and finishes each as soon as it is done. If it throws, the unfinished ones fail with that error. */
  run(context: StepContext): Promise<void>;
}

/** The tools of a step. */
export interface StepContext {
  /** Absolute path of the source. */
  readonly path: string;
  readonly source: IdentifiedFile & { readonly tracks: Tracks };
  readonly limits: EngineLimits;
  /** An empty folder for this step only. It is removed with its contents when the step ends. */
  readonly scratch: string;
  /** The folder for renditions: `name.extension`, or a folder `name` for several files. On the scratch's file system. */
  readonly outDir: string;
  /** Aborted if the renditions are no longer wanted. */
  readonly signal: AbortSignal | undefined;
  /**
   * Runs ffmpeg in an empty working directory with limits by the source's duration, and reports the run. Options such as
   * `-nostdin -hide_banner -y` are added; the step adds the input options (see `inputOptions`).
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
  /** Progress of this step, 0 to 1. */
  progress(fraction: number): void;
  /** Finishes one of the step's renditions; its files are complete, read back, and in place. */
  finish(planned: PlannedRendition, rendition: ReadyRendition | FailedRendition): void;
  /** Adds a sentence for the owner of the source. */
  warn(sentence: string): void;
  /** Sets the ThumbHash of the source, as base64. */
  setThumbhash(thumbhash: string): void;
}
