import type { IdentifiedFile } from '../../identified.ts';
import type { PlannedRendition } from '../../plan.ts';
import type { RenderResult } from '../result.ts';
import { type AvRenderOptions, runSteps } from './run-steps.ts';
import { stepsOf } from './steps.ts';

export type { AvRenderOptions } from './run-steps.ts';

/**
 * Makes the renditions of a video or audio file that are planned as `make`. A rendition that fails alone is reported as failed;
 * the others are made.
 * @throws RenderError if the render was aborted
 */
export async function renderAv(
  path: string,
  identified: IdentifiedFile,
  plan: readonly PlannedRendition[],
  outDir: string,
  options: AvRenderOptions,
): Promise<RenderResult> {
  const { tracks } = identified;
  if (tracks === null) throw new RangeError('An image has no tracks.');
  const source = { ...identified, tracks };
  const wanted = plan.filter(({ state }) => state === 'make');
  return await runSteps(path, source, stepsOf(source, wanted, options.beside), wanted, outDir, options);
}
