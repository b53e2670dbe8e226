import type { RenderErrorCode } from '../errors.ts';
import type { ProgramRun } from './program-run.ts';

/** One file of a rendition that consists of several, such as an HLS presentation. */
export interface RenderedFile {
  /** Path below the rendition's folder, `/` between segments: `720p/00001.m4s`. */
  readonly name: string;
  /** Its current path. */
  readonly path: string;
  readonly contentType: string;
  readonly bytes: number;
}

/** A finished rendition. `path` is within the job's outDir; the file is complete and was read back. */
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
  /** All files, with `path` first; `bytes` is then their sum. Null for a rendition of one file. */
  readonly files: readonly RenderedFile[] | null;
  /** Sentences for the operator: decisions made during the render, such as why a stream was copied. */
  readonly notes: readonly string[];
}

/** A rendition that could not be made; others of the same source may have succeeded. */
export interface FailedRendition {
  readonly name: string;
  readonly extension: string;
  readonly revision: string;
  readonly state: 'failed';
  readonly code: RenderErrorCode;
  /** A sentence. */
  readonly reason: string;
}

/** The result of a job: one entry for every rendition planned as `make`, in the plan's order. */
export interface RenderResult {
  readonly renditions: ReadonlyArray<ReadyRendition | FailedRendition>;
  /** ThumbHash of the image or its first frame as base64, about 25 bytes. Null if none could be made. */
  readonly thumbhash: string | null;
  readonly warnings: readonly string[];
  /** The programs that were run, in the order in which they ended. Empty for images, which need no program. */
  readonly runs: readonly ProgramRun[];
  /** Milliseconds by stage; stages overlap, `total` is wall-clock time. */
  readonly timings: Readonly<Record<string, number>>;
}

/**
 * The state of a program run, sent at its start, periodically, and at its end. With these, the runs of a render are known even
 * if its process dies before it can report them.
 */
export interface ProgramRunUpdate {
  /** Number of the run within its render. */
  readonly number: number;
  /** `outcome` is {@link stillRunning} until the run ends. */
  readonly run: ProgramRun;
}

/** The outcome of a run that has not ended. */
export const stillRunning = 'running';

/** Sent after each rendition and, during long ones, in between. */
export interface RenderProgress {
  readonly done: number;
  readonly total: number;
  /** Finished share of the whole job, by estimated work, 0 to 1; never decreases. */
  readonly fraction: number;
  /** The rendition that just finished; its files may be used or moved from now on. Null in between. */
  readonly rendition: ReadyRendition | FailedRendition | null;
}
