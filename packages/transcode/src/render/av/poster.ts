import { stillArgs } from '../../ffmpeg/argv/frames.ts';
import type { RawPixels } from '../../heic.ts';
import { fitInside, type PlannedPicture, type Size } from '../../plan.ts';
import { baseBox, renderPictures } from '../pictures.ts';
import type { PosterFrame } from './poster-frame.ts';
import type { Step, StepContext } from './step.ts';

/** Images of a video: one representative frame, through the same encoders as other images. */
export function posterStep(
  wanted: readonly PlannedPicture[],
  weight: number,
  posterFrame: (context: StepContext) => Promise<PosterFrame>,
): Step {
  return {
    name: 'poster',
    renditions: wanted,
    weight,
    async run(context) {
      const { source, outDir, signal } = context;
      const frame = await posterFrame(context);
      context.progress(0.4);
      const decodeAt = (size: Size) => decodeFrame(context, frame, size);
      const base = await decodeAt(fitInside(source, baseBox));
      context.progress(0.6);
      const thumbhash = await renderPictures({
        ...{ wanted, base, decodeAt, outDir },
        animated: null,
        notes: [`The frame at ${(frame.timeMs / 1_000).toFixed(1)} s.`],
        clock: (_stage, work) => work,
        finish: (planned, rendition) => context.finish(planned, rendition),
      });
      signal?.throwIfAborted();
      if (thumbhash !== null) context.setThumbhash(thumbhash);
    },
  };
}

async function decodeFrame(context: StepContext, frame: PosterFrame, size: Size): Promise<RawPixels> {
  const channels = 3;
  const bytes = size.width * size.height * channels;
  const data = await context.ffmpeg(stillArgs(context.path, context.source, size, frame.position), {
    maxOutputBytes: bytes,
  });
  if (data.length !== bytes) throw new Error('the frame could not be decoded a second time');
  return { data, ...size, channels };
}
