import type { RenderErrorCode } from '../errors.ts';

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
  /** Milliseconds by stage; stages overlap, `total` is wall-clock time. */
  readonly timings: Readonly<Record<string, number>>;
}

/** Told after each rendition: how far the job is, and what became of this one. Its file may be used, or moved, from here on. */
export interface RenderProgress {
  readonly done: number;
  readonly total: number;
  readonly rendition: ReadyRendition | FailedRendition;
}
