import type { IdentifiedFile, Tracks } from '../../identified.ts';
import type { PlannedRendition } from '../../plan.ts';
import { audioSteps } from './audio.ts';
import { frameSteps } from './frames.ts';
import { withReadableAlpha } from './readable-alpha.ts';
import type { Step } from './step.ts';
import { videoSteps } from './video.ts';

/** The steps for these renditions, quickest first, so that a poster is ready long before the ladder. */
export function stepsOf(
  source: IdentifiedFile & { readonly tracks: Tracks },
  wanted: readonly PlannedRendition[],
  beside: readonly PlannedRendition[] = [],
): Step[] {
  return withReadableAlpha([
    ...frameSteps(source, wanted, beside),
    ...audioSteps(source, wanted),
    ...videoSteps(source, wanted, beside),
  ]);
}
