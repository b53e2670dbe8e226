import { RenderError } from './errors.ts';
import type { Programs } from './ffmpeg/programs.ts';
import { heicDecoderVersion } from './heic.ts';
import type { IdentifiedFields, IdentifiedFile } from './identified.ts';
import { identifyFile } from './identify/identify.ts';
import type { Tasks } from './isolate-child.ts';
import type { EngineLimits } from './limits.ts';
import type { PlannedRendition } from './plan.ts';
import { type ProvenFormat, proveFormat } from './prove.ts';
import { renderAv } from './render/av/render-av.ts';
import { renderImage } from './render/image.ts';
import type { ProgramRunUpdate, RenderProgress, RenderResult } from './render/result.ts';
import { sharp, useThreads } from './vips.ts';

export interface IdentifyInput {
  path: string;
  limits: EngineLimits;
  /** Null if there are none: then videos and audio files are refused. */
  programs: Programs | null;
}

export interface RenderInput {
  path: string;
  source: IdentifiedFile;
  plan: PlannedRendition[];
  beside: PlannedRendition[];
  outDir: string;
  /** Threads for an image; null: the number of cores. */
  threads: number | null;
  limits: EngineLimits;
  programs: Programs | null;
}

export interface ProveInput {
  id: string;
  limits: EngineLimits;
  programs: Programs | null;
}

/** A report of a render while it runs. */
export type RenderReport =
  | { readonly type: 'progress'; readonly progress: RenderProgress }
  | { readonly type: 'run'; readonly update: ProgramRunUpdate };

/** The tasks of the isolated process. All input and output is JSON. */
export const tasks = {
  identify: ({ path, limits, programs }: IdentifyInput): Promise<IdentifiedFields> =>
    identifyFile(path, limits, programs),

  render: async (
    { path, source, plan, beside, outDir, threads, limits, programs }: RenderInput,
    report: (report: RenderReport) => void,
  ): Promise<RenderResult> => {
    const options = {
      limits,
      onProgress: (progress: RenderProgress) => report({ type: 'progress', progress }),
      onRun: (update: ProgramRunUpdate) => report({ type: 'run', update }),
    };
    if (threads !== null) useThreads(threads);
    if (source.kind === 'image') return renderImage(path, plan, outDir, { ...options, atOnce: threads ?? undefined });
    if (programs === null)
      throw new RenderError('unsupported_codec', 'ffmpeg is not installed, so it cannot be rendered.');
    return renderAv(path, source, plan, outDir, { ...options, beside, programs });
  },

  prove: ({ id, limits, programs }: ProveInput): Promise<ProvenFormat> => proveFormat(id, limits, programs),

  selfTest: async (): Promise<string> => {
    const pixels = await sharp({ create: { width: 16, height: 16, channels: 3, background: '#336699' } })
      .webp()
      .toBuffer()
      .then((encoded) => sharp(encoded).raw().toBuffer());
    const off = [0x33, 0x66, 0x99].reduce((sum, value, channel) => sum + Math.abs((pixels[channel] ?? 0) - value), 0);
    if (pixels.length !== 768 || off > 24) throw new Error('The encoder changed the colours of an image.');
    return `sharp ${sharp.versions.sharp}, libvips ${sharp.versions.vips}, libheif ${heicDecoderVersion()}`;
  },
} satisfies Tasks;
