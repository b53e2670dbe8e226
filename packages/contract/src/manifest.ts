import { z } from 'zod';
import { MediaId, MediaKind } from './scalars.ts';

/** One rendition of {@link Manifest}. */
export const ManifestRendition = z.strictObject({
  name: z.string(),
  extension: z.string(),
  content_type: z.string(),
  bytes: z.int(),
  width: z.int().nullable(),
  height: z.int().nullable(),
  url: z.string(),
  immutable_url: z.string(),
});
export type ManifestRendition = z.infer<typeof ManifestRendition>;

/** `/media/{id}/manifest.json`: everything that a page needs to show a media object. */
export const Manifest = z
  .strictObject({
    object: z.literal('manifest'),
    id: MediaId,
    kind: MediaKind,
    width: z.int(),
    height: z.int(),
    duration: z.number().nullable().meta({ description: 'Duration in seconds' }),
    thumbhash: z.string().nullable(),
    poster: z.string().nullable().meta({ description: 'URL of a still picture of the media object' }),
    storyboard: z.string().nullable().meta({ description: 'URL of the WebVTT storyboard' }),
    renditions: z.array(ManifestRendition),
  })
  .meta({ id: 'Manifest' });
export type Manifest = z.infer<typeof Manifest>;
