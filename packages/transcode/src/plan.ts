import type { IdentifiedFile } from './identified.ts';
import { type Preset, presetRevision } from './presets.ts';

/** One preset applied to one source: what it will be, or why it will not. */
export interface PlannedRendition {
  readonly preset: Preset;
  readonly revision: string;
  readonly name: string;
  readonly extension: string;
  readonly contentType: string;
  readonly state: 'make' | 'skip';
  /** A sentence: why it is skipped, or what of the source will show in it. */
  readonly reason: string;
  /** Size that the rendition has or would have, in pixels. */
  readonly width: number;
  readonly height: number;
}

/**
 * Decides what each preset makes of the source. Pure: the same source and presets always give the same plan, so a plan
 * can be explained and compared without rendering anything.
 */
export function planRenditions(source: IdentifiedFile, presets: readonly Preset[]): PlannedRendition[] {
  return presets.map((preset) => {
    const size = fitInside(source, preset);
    return {
      preset,
      revision: presetRevision(preset),
      name: preset.name,
      extension: preset.extension,
      contentType: preset.content_type,
      ...decide(source, preset, size),
      ...size,
    };
  });
}

/**
 * The largest size within the preset's box that keeps the source's shape and does not enlarge it; at least 1 x 1.
 * A box edge of null does not bound.
 */
export function fitInside(
  source: { width: number; height: number },
  box: { width: number | null; height: number | null },
): { width: number; height: number } {
  const { width, height } = source;
  if (width < 1 || height < 1) return { width: 0, height: 0 };
  const scale = Math.min(1, (box.width ?? width) / width, (box.height ?? height) / height);
  return { width: Math.max(1, Math.round(width * scale)), height: Math.max(1, Math.round(height * scale)) };
}

function decide(
  source: IdentifiedFile,
  preset: Preset,
  size: { width: number; height: number },
): Pick<PlannedRendition, 'state' | 'reason'> {
  if (!preset.source_kinds.includes(source.kind)) {
    return { state: 'skip', reason: `The preset is for ${preset.source_kinds.join(' and ')}; this is ${source.kind}.` };
  }
  if (source.kind !== 'image') {
    return { state: 'skip', reason: `This engine makes no images of ${source.kind} yet.` };
  }
  const largest = maxEncodedEdge[preset.container];
  if (largest !== undefined && Math.max(size.width, size.height) > largest) {
    return { state: 'skip', reason: `${preset.container} holds at most ${largest} pixels a side.` };
  }
  const moves = source.frames > 1;
  // Where an AVIF and a WebP share a name, clients that take both are given the AVIF: a still one would freeze the
  // animation for nearly everybody. A JPEG is only ever given to clients that take neither, so its first frame is kept.
  if (moves && preset.container === 'avif') {
    return {
      state: 'skip',
      reason: 'The source is an animation, and AVIF renditions are stills; WebP keeps it moving.',
    };
  }
  const shrunk = size.width < source.width || size.height < source.height;
  const how = shrunk ? `Fitted into the preset's box.` : `Kept at the source's size: renditions are never enlarged.`;
  if (moves && preset.container !== 'webp') return { state: 'make', reason: `First frame of the animation. ${how}` };
  return { state: 'make', reason: moves ? `All ${source.frames} frames. ${how}` : how };
}

/** Pixels a side that a container can hold: VP8 has 14 bits for each, JPEG 16. AV1's limit is libaom's. */
const maxEncodedEdge: Record<Preset['container'], number> = { webp: 16_383, jpeg: 65_535, avif: 16_384, png: 65_535 };
