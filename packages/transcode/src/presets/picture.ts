import { z } from 'zod';
import { Edge, Name, none, Quality, sourceKinds } from './shared.ts';

/** Fields of all picture presets. `width` and `height` are the edges of a box in pixels; null means no limit. */
const shared = {
  /** An image made from the source: the image itself, or a representative frame of a video. */
  type: z.literal('picture'),
  /** Names the rendition in its delivery path. Presets may share a name if their extensions differ. */
  name: Name.refine((name) => name !== 'hls', 'this name is reserved for a part of the delivery path'),
  kind: z.literal('image').default('image'),
  source_kinds: sourceKinds('image'),
  width: Edge.nullable().default(null),
  height: Edge.nullable().default(null),
  /** Shrunk to fit into the box. The shape is kept; nothing is enlarged or cropped. */
  fit: z.literal('inside').default('inside'),
  bitrate: none,
};

export const WebpPreset = z.strictObject({
  ...shared,
  container: z.literal('webp'),
  codecs: z.strictObject({ image: z.literal('webp') }).default({ image: 'webp' }),
  content_type: z.literal('image/webp').default('image/webp'),
  extension: z.literal('webp').default('webp'),
  quality: Quality.default(80),
  /** 0 (fastest) to 6 (smallest). */
  effort: z.int().min(0).max(6).default(4),
  /** True: exactly the source's pixels; `quality` then sets the effort. */
  lossless: z.boolean().default(false),
});

export const AvifPreset = z.strictObject({
  ...shared,
  container: z.literal('avif'),
  codecs: z.strictObject({ image: z.literal('av1') }).default({ image: 'av1' }),
  content_type: z.literal('image/avif').default('image/avif'),
  extension: z.literal('avif').default('avif'),
  quality: Quality.default(50),
  /** 0 (fastest) to 9 (smallest). */
  effort: z.int().min(0).max(9).default(3),
  chroma: z.enum(['4:4:4', '4:2:0']).default('4:2:0'),
  /** The quality metric that the encoder optimizes for. */
  tune: z.enum(['ssim', 'psnr', 'iq']).default('iq'),
});

export const JpegPreset = z.strictObject({
  ...shared,
  container: z.literal('jpeg'),
  codecs: z.strictObject({ image: z.literal('jpeg') }).default({ image: 'jpeg' }),
  content_type: z.literal('image/jpeg').default('image/jpeg'),
  extension: z.enum(['jpg', 'jpeg']).default('jpg'),
  quality: Quality.default(80),
  chroma: z.enum(['4:4:4', '4:2:0']).default('4:2:0'),
  /** Loads coarse first, then fine. */
  progressive: z.boolean().default(true),
  /** mozjpeg's trellis quantization and scan search: smaller files, several times slower. */
  mozjpeg: z.boolean().default(false),
  /** JPEG has no transparency: the colour behind transparent pixels, as #rrggbb. */
  background: z
    .string()
    .regex(/^#[0-9a-f]{6}$/, 'a colour as #rrggbb in lower case')
    .default('#ffffff'),
});

export const PngPreset = z.strictObject({
  ...shared,
  container: z.literal('png'),
  codecs: z.strictObject({ image: z.literal('png') }).default({ image: 'png' }),
  content_type: z.literal('image/png').default('image/png'),
  extension: z.literal('png').default('png'),
  /** Always null: PNG is lossless. */
  quality: z.null().default(null),
  /** zlib level, 0 to 9. */
  effort: z.int().min(0).max(9).default(6),
});

/** A still image, or an animated one if the source is animated and the container is WebP. */
export const PicturePreset = z.discriminatedUnion('container', [WebpPreset, AvifPreset, JpegPreset, PngPreset]);
export type PicturePreset = z.infer<typeof PicturePreset>;
