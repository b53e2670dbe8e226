import { RenderError, type RenderErrorCode } from '../../errors.ts';
import { ProgramError, type RunFailure } from '../../ffmpeg/run.ts';
import type { PlannedRendition } from '../../plan.ts';
import type { FailedRendition } from '../result.ts';

/** What the end of a program that decodes a source says of the source. */
const codes: Record<RunFailure, RenderErrorCode> = {
  exit: 'corrupt_media',
  signal: 'engine_crashed',
  wall: 'render_timeout',
  cpu: 'render_timeout',
  stall: 'render_timeout',
  memory: 'out_of_memory',
  output: 'output_failed',
  aborted: 'aborted',
  start: 'engine_crashed',
};

/** A rendition that came to nothing, with the code and the sentence that its error stands for. */
export function failedRendition(planned: PlannedRendition, error: unknown): FailedRendition {
  const { name, extension, revision } = planned;
  const why = error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error);
  const reason = `${name}.${extension} could not be made: ${why}`;
  return { name, extension, revision, state: 'failed', code: codeOf(error), reason };
}

function codeOf(error: unknown): RenderErrorCode {
  if (error instanceof RenderError) return error.code;
  return error instanceof ProgramError ? codes[error.failure] : 'output_failed';
}

/**
 * Runs something over files that we made ourselves: where a program does not take them, the output is at fault and not the
 * source.
 * @throws RenderError `output_failed` for such a program, and whatever else was thrown
 */
export async function overOutput<T>(what: string, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof ProgramError) || error.failure !== 'exit') throw error;
    throw new RenderError('output_failed', `${what} ${error.message}`, { cause: error });
  }
}
