import type { IdentifiedFile, Tracks } from '../../identified.ts';
import { isPicture, type PlannedRendition } from '../../plan.ts';
import { posterStep } from './poster.ts';
import { findPosterFrame, type PosterFrame } from './poster-frame.ts';
import { isPreview, previewStep } from './preview.ts';
import type { Step, StepContext } from './step.ts';
import { isStoryboard, storyboardSteps } from './storyboard.ts';
import { withMappableSource } from './tone-mapping.ts';
import { decodingWork } from './work.ts';

/** For starting ffmpeg a few times, and for encoding images. */
const startWork = 0.4;
/** The seconds of the preview, and those since the previous keyframe. */
const previewDecodesS = 8;

/** Steps for presets of the types `picture`, `preview` and `storyboard`. `beside`: renditions that exist already. */
export function frameSteps(
  source: IdentifiedFile & { readonly tracks: Tracks },
  wanted: readonly PlannedRendition[],
  beside: readonly PlannedRendition[] = [],
): Step[] {
  // Searched once, by the first step that needs it.
  let frame: Promise<PosterFrame> | undefined;
  const posterFrame = (context: StepContext) => {
    frame ??= findPosterFrame(context);
    return frame;
  };
  // Decoding takes longest, and the storyboard decodes the whole video.
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
