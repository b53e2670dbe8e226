import { join } from 'node:path';
import { spanArgs, spanChannels } from '../../ffmpeg/argv/frames.ts';
import type { PlannedRendition } from '../../plan.ts';
import type { PreviewPreset } from '../../presets/video.ts';
import { sharp } from '../../vips.ts';
import { readyFile, writeVerifiedImage } from '../output-file.ts';
import { type PosterFrame, undecodableError, videoTrack } from './poster-frame.ts';
import type { Step, StepContext } from './step.ts';

export type PlannedPreview = PlannedRendition & { readonly preset: PreviewPreset };

export function isPreview(planned: PlannedRendition): planned is PlannedPreview {
  return planned.preset.type === 'preview';
}

/** A few seconds from the poster frame on, as an animated WebP that repeats for ever. */
export function previewStep(
  planned: PlannedPreview,
  weight: number,
  posterFrame: (context: StepContext) => Promise<PosterFrame>,
): Step {
  return {
    name: `${planned.name}.${planned.extension}`,
    renditions: [planned],
    weight,
    async run(context) {
      const { path, source, outDir, signal } = context;
      const { preset, width, height } = planned;
      const video = videoTrack(context);
      const durationMs = video.durationMs ?? source.durationMs ?? 0;
      const startMs = Math.max(0, Math.min((await posterFrame(context)).timeMs, durationMs - preset.seconds * 1_000));
      context.progress(0.2);

      const frameRate = Math.min(preset.frame_rate, video.frameRate.num / video.frameRate.den);
      const frames = Math.max(1, Math.round(preset.seconds * frameRate));
      const channels = spanChannels(video);
      const frameBytes = width * height * channels;
      const span = { startMs, frames, frameRate };
      const data = await context.ffmpeg(spanArgs(path, source, planned, span), {
        maxOutputBytes: frames * frameBytes,
      });
      const pages = Math.floor(data.length / frameBytes);
      if (pages === 0) throw undecodableError();
      signal?.throwIfAborted();
      context.progress(0.5);

      const place = join(outDir, `${planned.name}.${planned.extension}`);
      const raw = { width, height: height * pages, channels, pageHeight: height };
      const facts = await writeVerifiedImage(place, planned, (temporary) =>
        sharp(data.subarray(0, pages * frameBytes), { raw, limitInputPixels: false })
          .webp({ quality: preset.quality, effort, loop: 0, delay: delaysOf(pages, frameRate) })
          .toFile(temporary),
      );
      const from = `From ${(startMs / 1_000).toFixed(1)} s, ${pages} frames at ${Number(frameRate.toFixed(2))} a second.`;
      context.finish(planned, readyFile(planned, place, facts, [from]));
    },
  };
}

/** Encoder effort, 0 to 6. An animation has thirty images, and more effort saves few bytes. */
const effort = 3;

/** Whole milliseconds without drift from the frame rate. */
function delaysOf(frames: number, frameRate: number): number[] {
  const at = (frame: number) => Math.round((frame * 1_000) / frameRate);
  return Array.from({ length: frames }, (_, frame) => at(frame + 1) - at(frame));
}
