import { createHash } from 'node:crypto';
import { z } from 'zod';
import { AudioPreset, WaveformPreset } from './audio.ts';
import { PicturePreset } from './picture.ts';
import { HlsPreset, Mp4Preset, PreviewPreset, StoryboardPreset, StoryboardSpritePreset } from './video.ts';

/**
 * Increase a number whenever a change of this package's code changes the bytes of renditions whose preset stayed the same
 * (another resampling kernel, another colour conversion). It is part of every revision of that type, so such renditions
 * become stale.
 */
export const recipes = {
  picture: 1,
  hls: 3,
  mp4: 2,
  preview: 1,
  storyboard: 2,
  audio: 1,
  waveform: 1,
} as const satisfies Record<Preset['type'], number>;

/** Fields that set a rendition's path and purpose but not its bytes. */
const namingOnly: ReadonlySet<string> = new Set(['name', 'kind', 'source_kinds', 'content_type', 'extension']);

const AnyPreset = z.discriminatedUnion('type', [
  PicturePreset,
  HlsPreset,
  Mp4Preset,
  PreviewPreset,
  StoryboardPreset,
  AudioPreset,
  WaveformPreset,
]);

/**
 * One rendition recipe. An operator's file needs `type` (default: picture), `name`, a container if the type has several, and a
 * box; all other fields have defaults. Fields that the API shows (`GET /api/v1/renditions`) have the API's names; the others
 * have the encoder's.
 */
export type Preset = z.infer<typeof AnyPreset>;
export const Preset = z.preprocess(
  (json) => (typeof json === 'object' && json !== null && !('type' in json) ? { type: 'picture', ...json } : json),
  AnyPreset,
);

const Presets = z
  .array(Preset)
  .min(1)
  .superRefine((presets, context) => {
    const report = (index: number, field: string, message: string) =>
      context.addIssue({ code: 'custom', path: [index, field], message });
    const seen = new Set<string>();
    for (const [index, preset] of presets.entries()) {
      const path = `${preset.name}.${preset.extension}`;
      if (seen.has(path)) {
        report(index, 'name', `a second preset for ${path}: name and extension together must be unique`);
      }
      seen.add(path);
      if (preset.type !== 'storyboard' || preset.container !== 'vtt') continue;
      const sprite = presets.find((other) => other.name === preset.name && other.extension === 'jpg');
      if (sprite === undefined || presetRevision(sprite) !== presetRevision(spriteOf(preset))) {
        report(
          index,
          'name',
          `needs a jpeg storyboard named ${preset.name} with the same settings: this preset is the index of that sprite`,
        );
      }
    }
  });

/** The sprite that a storyboard's index belongs to: a preset that differs only in its container. */
export function spriteOf(index: StoryboardPreset): StoryboardSpritePreset {
  const { name, source_kinds, width, height, columns, max_tiles, quality } = index;
  const type = 'storyboard';
  return StoryboardSpritePreset.parse({
    ...{ type, name, source_kinds, width, height, columns, max_tiles, quality },
    container: 'jpeg',
  });
}

/** Presets that cannot be used. `problems` has one line for each thing to fix; `message` lists them all. */
export class PresetsError extends Error {
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(`The presets cannot be used:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`);
    this.name = 'PresetsError';
    this.problems = problems;
  }
}

/** Checks presets read from JSON and fills in their defaults. Throws a `PresetsError` with all problems. */
export function parsePresets(json: unknown): Preset[] {
  const result = Presets.safeParse(json);
  if (result.success) return result.data;
  throw new PresetsError(
    result.error.issues.map(({ path, message }) => `${path.length ? path.join('.') : 'presets'}: ${message}`),
  );
}

const box = (edge: number) => ({ width: edge, height: edge });

/**
 * The presets of a deployment that sets none. Encoder settings were chosen by processor time, bytes and SSIM of brightness
 * (`npm run bench -- image-settings`), relative to sharp's defaults at 1280 px.
 * - WebP at quality 80: effort 2 takes half the time of effort 4 for 3 % more bytes and 0.0018 less SSIM. At equal SSIM it
 *   needs 10 % more bytes.
 * - AVIF at quality 50, effort 3, 4:2:0, tuned for image quality takes a fifth of the time of sharp's default (effort 4,
 *   4:4:4). It has 0.0017 more SSIM for 3 % more bytes. Tuned for SSIM, it gives less SSIM.
 * - A progressive JPEG is 2 % smaller than a baseline one, which pays for quality 81.
 * - An image shrunk twice, from the source and from the base, loses 0.0005 SSIM. Quality 82 gives thumb and small more than
 *   that back.
 */
export const defaultPresets: readonly Preset[] = parsePresets([
  { name: 'thumb', container: 'webp', ...box(320), quality: 82 },
  { name: 'small', container: 'webp', ...box(640), quality: 82 },
  { name: 'medium', container: 'webp', ...box(1280) },
  { name: 'medium', container: 'avif', ...box(1280) },
  { name: 'medium', container: 'jpeg', ...box(1280), quality: 81 },
  { name: 'large', container: 'webp', ...box(2048) },
  { name: 'poster', container: 'webp', source_kinds: ['video'], ...box(1280) },
  { name: 'poster', container: 'jpeg', source_kinds: ['video'], ...box(1280) },
  { type: 'hls' },
  { type: 'mp4', name: 'mp4' },
  { type: 'preview', name: 'preview' },
  { type: 'storyboard', name: 'storyboard', container: 'jpeg' },
  { type: 'storyboard', name: 'storyboard', container: 'vtt' },
  { type: 'audio', name: 'audio' },
  { type: 'waveform', name: 'waveform', container: 'json' },
  { type: 'waveform', name: 'waveform', container: 'webp' },
]);

/**
 * 8 hex digits that change whenever the bytes of the rendition would. They are the SHA-256 of canonical JSON (sorted keys)
 * with every parameter that the encoder sees and the recipe number of the type.
 */
export function presetRevision(preset: Preset): string {
  const parameters = Object.entries(preset)
    .filter(([key]) => !namingOnly.has(key))
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return createHash('sha256')
    .update(JSON.stringify([recipes[preset.type], parameters]))
    .digest('hex')
    .slice(0, 8);
}
