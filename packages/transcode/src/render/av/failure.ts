import { RenderError, type RenderErrorCode } from '../../errors.ts';
import { ProgramError, type RunFailure } from '../../ffmpeg/run.ts';
import type { PlannedRendition } from '../../plan.ts';
import type { FailedRendition } from '../result.ts';

/** What the end of a program that decodes a source says of the source: a code, and a clause for a person. */
const fates: Record<RunFailure, { code: RenderErrorCode; why: string }> = {
  exit: {
    code: 'corrupt_media',
    why: 'the source could not be decoded. It seems to be damaged or incomplete; export it again',
  },
  signal: { code: 'engine_crashed', why: 'ffmpeg crashed over the source. It may be damaged; export it again' },
  wall: { code: 'render_timeout', why: 'it took too long' },
  cpu: { code: 'render_timeout', why: 'it took too much processor time' },
  stall: { code: 'render_timeout', why: 'ffmpeg no longer got on with it' },
  memory: { code: 'out_of_memory', why: 'it took more memory than a render may have' },
  output: { code: 'output_failed', why: 'it came out larger than it can be' },
  aborted: { code: 'aborted', why: 'it was stopped' },
  start: { code: 'engine_crashed', why: 'ffmpeg could not be started' },
};
const diskFull = { code: 'output_failed', why: 'there is no space left on the disk' } as const;

/** ffmpeg's own words are for `explain`, which has them in the report of the run. */
function fateOf({ failure, run }: ProgramError): { code: RenderErrorCode; why: string } {
  const full = failure === 'exit' && run.stderrTail.some((line) => line.includes('No space left on device'));
  return full ? diskFull : fates[failure];
}

/** A rendition that came to nothing, with the code and the sentence that its error stands for. */
export function failedRendition(planned: PlannedRendition, error: unknown): FailedRendition {
  const { name, extension, revision } = planned;
  const { code, why } = error instanceof ProgramError ? fateOf(error) : { code: codeOf(error), why: messageOf(error) };
  const reason = `${name}.${extension} could not be made: ${why}${/[.!?]$/.test(why) ? '' : '.'}`;
  return { name, extension, revision, state: 'failed', code, reason };
}

function codeOf(error: unknown): RenderErrorCode {
  return error instanceof RenderError ? error.code : 'output_failed';
}

function messageOf(error: unknown): string {
  return error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error);
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
    const { code, why } = fateOf(error);
    if (code === 'output_failed') throw new RenderError(code, why, { cause: error });
    throw new RenderError('output_failed', `${what}. Retrying may help`, { cause: error });
  }
}
