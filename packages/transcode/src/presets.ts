import { createHash } from 'node:crypto';
import { z } from 'zod';
import { MediaKind } from './media-kind.ts';

/**
 * Raised whenever a change of this package's code changes the bytes of renditions whose preset stayed the same (another
 * resampling kernel, another colour conversion). It is part of every revision, so that such renditions become stale.
 */
export const imageRecipe = 1;

const Quality = z.int().min(1).max(100);
const Name = z
  .string()
  .regex(/^[a-z][a-z0-9_-]{0,31}$/, 'a lower-case letter, then up to 31 letters, digits, "-" or "_"')
  .refine((name) => !['hls', 'manifest'].includes(name), 'this name is taken by a part of the delivery path');

/** What all image presets share. `width` and `height` are the edges of a box in pixels; null does not bound. */
const shared = {
  /** Names the rendition in its delivery path. Presets may share a name where they differ in extension. */
  name: Name,
  kind: z.literal('image').default('image'),
  /** Kinds of source that the preset applies to. */
  source_kinds: z.array(MediaKind).min(1).default(['image']),
  width: z.int().min(1).max(16_384).nullable().default(null),
  height: z.int().min(1).max(16_384).nullable().default(null),
  /** Shrunk to fit into the box, shape kept, never enlarged, never cropped. */
  fit: z.literal('inside').default('inside'),
  /** No meaning for images; there so that every preset fills the same record. */
  bitrate: z.null().default(null),
};

const WebpPreset = z.strictObject({
  ...shared,
  container: z.literal('webp'),
  codecs: z.strictObject({ image: z.literal('webp') }).default({ image: 'webp' }),
  content_type: z.literal('image/webp').default('image/webp'),
  extension: z.literal('webp').default('webp'),
  quality: Quality.default(80),
  /** 0 (fastest) to 6 (smallest). */
  effort: z.int().min(0).max(6).default(4),
  /** True: pixels exactly as the source's; `quality` is then a measure of effort. */
  lossless: z.boolean().default(false),
});

const AvifPreset = z.strictObject({
  ...shared,
  container: z.literal('avif'),
  codecs: z.strictObject({ image: z.literal('av1') }).default({ image: 'av1' }),
  content_type: z.literal('image/avif').default('image/avif'),
  extension: z.literal('avif').default('avif'),
  quality: Quality.default(50),
  /** 0 (fastest) to 9 (smallest). */
  effort: z.int().min(0).max(9).default(3),
  chroma: z.enum(['4:4:4', '4:2:0']).default('4:2:0'),
  /** What the encoder spends its bytes on. */
  tune: z.enum(['ssim', 'psnr', 'iq']).default('iq'),
});

const JpegPreset = z.strictObject({
  ...shared,
  container: z.literal('jpeg'),
  codecs: z.strictObject({ image: z.literal('jpeg') }).default({ image: 'jpeg' }),
  content_type: z.literal('image/jpeg').default('image/jpeg'),
  extension: z.enum(['jpg', 'jpeg']).default('jpg'),
  quality: Quality.default(80),
  chroma: z.enum(['4:4:4', '4:2:0']).default('4:2:0'),
  /** Shows coarse first, then fine. */
  progressive: z.boolean().default(true),
  /** mozjpeg's trellis quantisation and scan search: smaller, several times slower. */
  mozjpeg: z.boolean().default(false),
  /** JPEG has no transparency: what shows through, as #rrggbb. */
  background: z
    .string()
    .regex(/^#[0-9a-f]{6}$/, 'a colour as #rrggbb in lower case')
    .default('#ffffff'),
});

const PngPreset = z.strictObject({
  ...shared,
  container: z.literal('png'),
  codecs: z.strictObject({ image: z.literal('png') }).default({ image: 'png' }),
  content_type: z.literal('image/png').default('image/png'),
  extension: z.literal('png').default('png'),
  quality: z.null().default(null),
  /** zlib level, 0 to 9. */
  effort: z.int().min(0).max(9).default(6),
});

/**
 * One rendition recipe. An operator's file needs `name`, `container` and a box; the rest has defaults. The fields that the
 * API shows (`GET /api/v1/renditions`) are spelled as it spells them; the others are the encoder's own.
 */
export const Preset = z.discriminatedUnion('container', [WebpPreset, AvifPreset, JpegPreset, PngPreset]);
export type Preset = z.infer<typeof Preset>;

const Presets = z
  .array(Preset)
  .min(1)
  .superRefine((presets, context) => {
    const seen = new Set<string>();
    for (const [index, { name, extension }] of presets.entries()) {
      const path = `${name}.${extension}`;
      if (seen.has(path)) {
        context.addIssue({
          code: 'custom',
          path: [index, 'name'],
          message: `a second preset for ${path}: name and extension together must be unique`,
        });
      }
      seen.add(path);
    }
  });

/** Presets that cannot be used. `problems` has one line for each thing to mend; `message` has them all. */
export class PresetsError extends Error {
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(`The presets cannot be used:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`);
    this.name = 'PresetsError';
    this.problems = problems;
  }
}

/** Checks presets read from JSON and fills in their defaults. Throws a `PresetsError` with every problem at once. */
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
 * (`npm run bench -- image-settings`), relative to sharp's defaults at 1280 px. WebP at quality 80: effort 2 takes half the
 * time of effort 4 for 3 % more bytes and 0.0018 less SSIM, or 10 % more bytes for equal SSIM. AVIF at quality 50, effort 3,
 * 4:2:0, tuned for image quality: a fifth of the time of sharp's default (effort 4, 4:4:4), 0.0017 more SSIM for 3 % more bytes; the
 * same tuned for SSIM gives less SSIM. A progressive JPEG is 2 % smaller than a baseline one, which pays for quality 81. What is
 * shrunk twice, from the source and from the base, loses 0.0005 SSIM: quality 82 gives thumb and small more than that back.
 */
export const defaultPresets: readonly Preset[] = parsePresets([
  { name: 'thumb', container: 'webp', ...box(320), quality: 82 },
  { name: 'small', container: 'webp', ...box(640), quality: 82 },
  { name: 'medium', container: 'webp', ...box(1280) },
  { name: 'medium', container: 'avif', ...box(1280) },
  { name: 'medium', container: 'jpeg', ...box(1280), quality: 81 },
  { name: 'large', container: 'webp', ...box(2048) },
]);

/** Fields that say where a rendition is found and what it is for, not what its bytes are. */
const namingOnly: ReadonlySet<string> = new Set([
  'name',
  'kind',
  'source_kinds',
  'content_type',
  'extension',
  'bitrate',
]);

/**
 * 8 hex digits that change whenever the bytes of the rendition would: SHA-256 over the canonical JSON (keys sorted) of every
 * parameter that the encoder sees, and the recipe number.
 */
export function presetRevision(preset: Preset): string {
  const parameters = Object.entries(preset)
    .filter(([key]) => !namingOnly.has(key))
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return createHash('sha256')
    .update(JSON.stringify([imageRecipe, parameters]))
    .digest('hex')
    .slice(0, 8);
}
