import { initContract } from '@ts-rest/core';
import { z } from 'zod';
import { commonProblems } from './problem.ts';
import { Codecs, listOf, MediaKind, Revision } from './scalars.ts';

const c = initContract();

/** A rendition preset, applied to every media object of its source kinds. A field that does not apply is null. */
export const Rendition = z
  .strictObject({
    name: z.string().meta({ example: 'medium' }),
    kind: MediaKind.meta({ description: 'Kind of the rendition' }),
    source_kinds: z.array(MediaKind).meta({ description: 'Kinds of media that the preset applies to' }),
    container: z.string().nullable(),
    codecs: Codecs.nullable(),
    content_type: z.string(),
    extension: z.string(),
    width: z.int().nullable().meta({ description: 'Width of the bounding box in pixels' }),
    height: z.int().nullable().meta({ description: 'Height of the bounding box in pixels' }),
    fit: z
      .string()
      .nullable()
      .meta({ description: 'How the picture fits into the bounding box; it is never enlarged' }),
    quality: z.int().nullable().meta({ description: 'Quality of the encoder, from 1 to 100' }),
    bitrate: z.int().nullable().meta({ description: 'Bits per second' }),
    revision: Revision,
    path: z.string().meta({ description: 'Template of the delivery path; `{id}` is the id of the media object' }),
  })
  .meta({ id: 'Rendition' });
export type Rendition = z.infer<typeof Rendition>;

export const RenditionList = listOf(Rendition).meta({ id: 'RenditionList' });
export type RenditionList = z.infer<typeof RenditionList>;

export const renditionsRoutes = c.router({
  list: {
    method: 'GET',
    path: '/renditions',
    summary: 'List rendition presets',
    description: 'Rendition presets that are applied during processing.',
    responses: { ...commonProblems, 200: RenditionList },
    metadata: { cacheControl: 'public, max-age=300', query: [] },
  },
});
