import type { IdentifiedFile, Tracks } from '../../identified.ts';
import { isPicture, type PlannedRendition } from '../../plan.ts';
import { posterStep } from './poster.ts';
import { findPosterFrame, type PosterFrame } from './poster-frame.ts';
import { isPreview, previewStep } from './preview.ts';
import type { Step, StepContext } from './step.ts';
import { isStoryboard, storyboardSteps } from './storyboard.ts';
import { withMappableSource } from './tone-mapping.ts';

/** Steps for presets of the types `picture`, `preview` and `storyboard`. `beside`: those that are there already. */
export function frameSteps(
  source: IdentifiedFile & { readonly tracks: Tracks },
  wanted: readonly PlannedRendition[],
  beside: readonly PlannedRendition[] = [],
): Step[] {
  // Looked for once, by whichever step comes first.
  let frame: Promise<PosterFrame> | undefined;
  const posterFrame = (context: StepContext) => {
    frame ??= findPosterFrame(context);
    return frame;
  };
  // In the unit of the other steps' weights; what takes long is decoding, which the storyboard does for the whole video.
  const seconds = (source.durationMs ?? 0) / 1_000;
  const pictures = wanted.filter(isPicture);
  const steps = [
    ...(pictures.length > 0 ? [posterStep(pictures, 1, posterFrame)] : []),
    ...wanted.filter(isPreview).map((planned) => previewStep(planned, 1, posterFrame)),
    ...storyboardSteps(wanted.filter(isStoryboard), beside.filter(isStoryboard), 0.2 + seconds / 20),
  ];
  return steps.map((step) => ({ ...step, run: async (context) => step.run(await withMappableSource(context)) }));
}
