import { RenderError, type RenderErrorCode } from '../../errors.ts';
import { ProgramError, type RunFailure } from '../../ffmpeg/run.ts';
import type { PlannedRendition } from '../../plan.ts';
import type { FailedRendition } from '../result.ts';

/** For each way in which a decoding program can fail: a code, and a clause for a person. */
const causes: Record<RunFailure, { code: RenderErrorCode; why: string }> = {
  exit: {
    code: 'corrupt_media',
    why: 'the source could not be decoded. It seems to be damaged or incomplete; export it again',
  },
  signal: { code: 'engine_crashed', why: 'ffmpeg crashed on the source. It may be damaged; export it again' },
  wall: { code: 'render_timeout', why: 'it took too long' },
  cpu: { code: 'render_timeout', why: 'it took too much processor time' },
  stall: { code: 'render_timeout', why: 'ffmpeg made no more progress' },
  memory: { code: 'out_of_memory', why: 'it needed more memory than a render may use' },
  output: { code: 'output_failed', why: 'its output was too large' },
  aborted: { code: 'aborted', why: 'it was stopped' },
  start: { code: 'engine_crashed', why: 'ffmpeg could not be started' },
};
const diskFull = { code: 'output_failed', why: 'there is no space left on the disk' } as const;

/** The message of ffmpeg itself is in the report of the run, which `explain` shows. */
function causeOf({ failure, run }: ProgramError): { code: RenderErrorCode; why: string } {
  const full = failure === 'exit' && run.stderrTail.some((line) => line.includes('No space left on device'));
  return full ? diskFull : causes[failure];
}

/** A failed rendition, with the code and the sentence for its error. */
export function failedRendition(planned: PlannedRendition, error: unknown): FailedRendition {
  const { name, extension, revision } = planned;
  const { code, why } = error instanceof ProgramError ? causeOf(error) : { code: codeOf(error), why: messageOf(error) };
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
 * Runs a program on files that we made ourselves. If it refuses them, the output is at fault, not the source.
 * @throws RenderError `output_failed` for such a failure; other errors pass through
 */
export async function checkingOutput<T>(what: string, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof ProgramError) || error.failure !== 'exit') throw error;
    const { code, why } = causeOf(error);
    if (code === 'output_failed') throw new RenderError(code, why, { cause: error });
    throw new RenderError('output_failed', `${what}. Retrying may help`, { cause: error });
  }
}
