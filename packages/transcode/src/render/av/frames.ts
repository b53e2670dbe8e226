import type { IdentifiedFile, Tracks } from '../../identified.ts';
import { isPicture, type PlannedRendition } from '../../plan.ts';
import { posterStep } from './poster.ts';
import { findPosterFrame, type PosterFrame } from './poster-frame.ts';
import { isPreview, previewStep } from './preview.ts';
import type { Step, StepContext } from './step.ts';
import { isStoryboard, storyboardSteps } from './storyboard.ts';
import { withMappableSource } from './tone-mapping.ts';
import { decodingWork } from './work.ts';

/** Starting ffmpeg a few times, and encoding pictures. */
const startWork = 0.4;
/** Its own seconds, and those since the keyframe before. */
const previewDecodesS = 8;

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
  // What takes long is decoding, which the storyboard does for the whole video.
  const whole = decodingWork(source);
  const pictures = wanted.filter(isPicture);
  const steps = [
    ...(pictures.length > 0 ? [posterStep(pictures, startWork, posterFrame)] : []),
    ...wanted
      .filter(isPreview)
      .map((planned) => previewStep(planned, startWork + decodingWork(source, previewDecodesS), posterFrame)),
    ...storyboardSteps(wanted.filter(isStoryboard), beside.filter(isStoryboard), startWork / 2 + whole),
  ];
  return steps.map((step) => ({ ...step, run: async (context) => step.run(await withMappableSource(context)) }));
}
