import { sourceInput } from '../../ffmpeg/argv/source-input.ts';
import { ProgramError } from '../../ffmpeg/run.ts';
import type { Step, StepContext } from './step.ts';

/**
 * Wraps steps so that an alpha channel that cannot be read to its end is ignored. Only libvpx reads the alpha of VP8 and VP9.
 * After damage it returns no frame before the next keyframe, which may never come; ffmpeg's own decoders continue. So a source
 * with alpha is decoded once beforehand: the picture matters more than its transparency.
 */
export function withReadableAlpha(steps: readonly Step[]): Step[] {
  let readable: Promise<boolean> | undefined;
  return steps.map((step) => ({
    ...step,
    async run(context) {
      const { source } = context;
      const { video } = source.tracks;
      if (!video?.hasAlpha || (video.codec !== 'vp8' && video.codec !== 'vp9')) return step.run(context);
      readable ??= decodesWithAlpha(context, video.index);
      if (await readable) return step.run(context);
      context.warn('Parts of the video are damaged; it is shown without its transparency.');
      const opaque = { ...source, tracks: { ...source.tracks, video: { ...video, hasAlpha: false } } };
      return step.run({ ...context, source: opaque });
    },
  }));
}

async function decodesWithAlpha({ path, source, ffmpeg }: StepContext, stream: number): Promise<boolean> {
  try {
    await ffmpeg(['-xerror', ...sourceInput(path, source), '-map', `0:${stream}`, '-f', 'null', '-']);
    return true;
  } catch (error) {
    if (error instanceof ProgramError && error.failure === 'exit') return false;
    throw error;
  }
}
