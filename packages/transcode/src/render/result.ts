import type { RenderErrorCode } from '../errors.ts';
import type { ProgramRun } from './program-run.ts';

/** One file of a rendition that consists of several, such as an HLS presentation. */
export interface RenderedFile {
  /** Path below the rendition's folder, `/` between segments: `720p/00001.m4s`. */
  readonly name: string;
  /** Where it lies now. */
  readonly path: string;
  readonly contentType: string;
  readonly bytes: number;
}

/** A rendition that was made. `path` is within the job's outDir; the file is complete and was read back. */
export interface ReadyRendition {
  readonly name: string;
  readonly extension: string;
  readonly revision: string;
  readonly state: 'ready';
  readonly path: string;
  readonly bytes: number;
  readonly width: number;
  readonly height: number;
  readonly frames: number;
  readonly durationMs: number | null;
  /** All files, `path` among them as the first; null for a rendition of one file. `bytes` is then their sum. */
  readonly files: readonly RenderedFile[] | null;
  /** Sentences for its operator: what was decided while it was made, such as that a stream was copied and why. */
  readonly notes: readonly string[];
}

/** A rendition that could not be made, though others of the same source may have been. */
export interface FailedRendition {
  readonly name: string;
  readonly extension: string;
  readonly revision: string;
  readonly state: 'failed';
  readonly code: RenderErrorCode;
  /** A sentence. */
  readonly reason: string;
}

/** What became of a job: one entry for every rendition planned as `make`, in the plan's order. */
export interface RenderResult {
  readonly renditions: ReadonlyArray<ReadyRendition | FailedRendition>;
  /** ThumbHash of the (first frame of the) picture as base64, about 25 bytes. Null where none could be made. */
  readonly thumbhash: string | null;
  readonly warnings: readonly string[];
  /** The programs that were run, in the order of their ends. Empty for images, which are made in the process itself. */
  readonly runs: readonly ProgramRun[];
  /** Milliseconds by stage; stages overlap, `total` is wall-clock time. */
  readonly timings: Readonly<Record<string, number>>;
}

/**
 * A run of a program as it stands: told when it begins, from time to time, and when it has ended. Whoever listens has the runs of
 * a render that never came to report them itself.
 */
export interface ProgramRunUpdate {
  /** Counts the runs of a render. */
  readonly number: number;
  /** `outcome` is {@link stillRunning} until it has ended. */
  readonly run: ProgramRun;
}

/** The outcome of a run that has not ended. */
export const stillRunning = 'running';

/** Told after each rendition and, where one takes long, in between. */
export interface RenderProgress {
  readonly done: number;
  readonly total: number;
  /** Share of the whole job that is done, by estimated work, 0 to 1; never goes back. */
  readonly fraction: number;
  /** What became of the one that was just finished; its files may be used, or moved, from here on. Null in between. */
  readonly rendition: ReadyRendition | FailedRendition | null;
}
