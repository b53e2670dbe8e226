import type { PlannedRendition } from '../../plan.ts';
import type { StoryboardPreset } from '../../presets/video.ts';

/** Maps spans of a video to tiles. It depends only on the plan and the duration, so index and sprite always agree. */
export interface StoryboardLayout {
  readonly tiles: number;
  readonly columns: number;
  readonly rows: number;
  /** Size of one tile in pixels. */
  readonly width: number;
  readonly height: number;
  readonly durationMs: number;
}

/** Minimum distance of tiles; closer ones would not help anybody. */
const minApartMs = 1_000;

export function storyboardLayout(
  { width, height, preset }: Pick<PlannedRendition, 'width' | 'height'> & { readonly preset: StoryboardPreset },
  durationMs: number | null,
): StoryboardLayout {
  const known = Math.max(1, durationMs ?? 0);
  const tiles = Math.min(preset.max_tiles, Math.max(1, Math.floor(known / minApartMs)));
  const columns = Math.min(preset.columns, tiles);
  return { tiles, columns, rows: Math.ceil(tiles / columns), width, height, durationMs: known };
}

/**
 * The index as WebVTT: one cue per tile, without gaps from 0 to the end. Each cue names a rectangle of the sprite as a spatial
 * media fragment (W3C Media Fragments 1.0, 4.2.2).
 */
export function storyboardIndex(
  { tiles, columns, width, height, durationMs }: StoryboardLayout,
  sprite: string,
): string {
  const cues = Array.from({ length: tiles }, (_, tile) => {
    const [from, to] = [tile, tile + 1].map((n) => timestamp(Math.round((n * durationMs) / tiles)));
    const [x, y] = [(tile % columns) * width, Math.floor(tile / columns) * height];
    return `${from} --> ${to}\n${sprite}#xywh=${x},${y},${width},${height}\n`;
  });
  return `WEBVTT\n\n${cues.join('\n')}`;
}

/** A WebVTT timestamp: `HH:MM:SS.mmm`, with more digits if there are more than 99 hours. */
export function timestamp(ms: number): string {
  const pad = (value: number, digits = 2) => String(Math.floor(value)).padStart(digits, '0');
  return `${pad(ms / 3_600_000)}:${pad((ms / 60_000) % 60)}:${pad((ms / 1_000) % 60)}.${pad(ms % 1_000, 3)}`;
}
