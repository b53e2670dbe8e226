import { z } from 'zod';
import { Edge, Name, none, Quality, sourceKinds } from './shared.ts';

/** What all picture presets share. `width` and `height` are the edges of a box in pixels; null does not bound. */
const shared = {
  /** A picture of the source: the image itself, or a frame of a video that stands for it. */
  type: z.literal('picture'),
  /** Names the rendition in its delivery path. Presets may share a name where they differ in extension. */
  name: Name.refine((name) => name !== 'hls', 'this name is taken by a part of the delivery path'),
  kind: z.literal('image').default('image'),
  source_kinds: sourceKinds('image'),
  width: Edge.nullable().default(null),
  height: Edge.nullable().default(null),
  /** Shrunk to fit into the box, shape kept, never enlarged, never cropped. */
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
  /** True: pixels exactly as the source's; `quality` is then a measure of effort. */
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
  /** What the encoder spends its bytes on. */
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

export const PngPreset = z.strictObject({
  ...shared,
  container: z.literal('png'),
  codecs: z.strictObject({ image: z.literal('png') }).default({ image: 'png' }),
  content_type: z.literal('image/png').default('image/png'),
  extension: z.literal('png').default('png'),
  /** No meaning for PNG, which keeps every pixel. */
  quality: z.null().default(null),
  /** zlib level, 0 to 9. */
  effort: z.int().min(0).max(9).default(6),
});

/** A still picture, or for an animated source in WebP, a moving one. */
export const PicturePreset = z.discriminatedUnion('container', [WebpPreset, AvifPreset, JpegPreset, PngPreset]);
export type PicturePreset = z.infer<typeof PicturePreset>;
