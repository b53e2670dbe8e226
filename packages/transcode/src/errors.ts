import { z } from 'zod';
import type { ProgramRun } from './render/program-run.ts';

/** Why bytes were not accepted. Stable: part of the service's contract. */
export const RejectionCode = z.enum([
  'empty_file',
  'unsupported_format',
  'unsupported_codec',
  'corrupt_media',
  'too_many_pixels',
  'too_many_frames',
  'too_long',
  'unsafe_media',
  'identify_timeout',
  'identify_crashed',
]);
export type RejectionCode = z.infer<typeof RejectionCode>;

/** Why a rendition, or a whole render, came to nothing. Stable, as `RejectionCode` is. */
export const RenderErrorCode = z.enum([
  'corrupt_media',
  'unsupported_codec',
  'render_timeout',
  'out_of_memory',
  'engine_crashed',
  'aborted',
  'output_failed',
]);
export type RenderErrorCode = z.infer<typeof RenderErrorCode>;

/** The file was not accepted. `message` is a sentence for a person: what was wrong and what to do about it. */
export class MediaRejectedError extends Error {
  readonly code: RejectionCode;

  constructor(code: RejectionCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'MediaRejectedError';
    this.code = code;
  }
}

/**
 * Another attempt at the same bytes can only help where chance took part: a machine that was too busy, a child process
 * that something else killed, a caller that stopped. A damaged file or a breached memory cap would fail again.
 */
const retryableCodes: ReadonlySet<RenderErrorCode> = new Set<RenderErrorCode>([
  'render_timeout',
  'engine_crashed',
  'aborted',
  'output_failed',
]);

/**
 * Rendering failed as a whole. `retryable` says whether another attempt could end differently; `runs` are the programs that had
 * been run by then, the one that was cut off among them, as far as they are known.
 */
export class RenderError extends Error {
  readonly code: RenderErrorCode;
  readonly retryable: boolean;
  readonly runs: readonly ProgramRun[];

  constructor(
    code: RenderErrorCode,
    message: string,
    { runs = [], ...options }: ErrorOptions & { runs?: readonly ProgramRun[] } = {},
  ) {
    super(message, options);
    this.name = 'RenderError';
    this.code = code;
    this.retryable = retryableCodes.has(code);
    this.runs = runs;
  }
}
