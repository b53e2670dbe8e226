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

/** Why a rendition, or a whole render, failed. Stable, like `RejectionCode`. */
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

/** The file was not accepted. `message` is a sentence for a person: what is wrong and how to fix it. */
export class MediaRejectedError extends Error {
  readonly code: RejectionCode;

  constructor(code: RejectionCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'MediaRejectedError';
    this.code = code;
  }
}

/**
 * A retry helps only if the failure was accidental: a busy machine, a child process killed from outside, or a caller that
 * stopped. A damaged file or an exceeded memory limit would fail again.
 */
const retryableCodes: ReadonlySet<RenderErrorCode> = new Set<RenderErrorCode>([
  'render_timeout',
  'engine_crashed',
  'aborted',
  'output_failed',
]);

/**
 * The whole render failed. `retryable`: another attempt could succeed. `runs` lists the programs that were run, including one
 * that was cut off, as far as they are known.
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
