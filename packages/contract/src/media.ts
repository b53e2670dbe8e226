import { initContract } from '@ts-rest/core';
import { z } from 'zod';
import { commonProblems } from './problem.ts';
import { Limit, listOf, MediaId, Timestamp } from './scalars.ts';

const c = initContract();

/** Processing state: `queued -> processing -> ready | failed`; a retry returns `failed` to `queued`. */
export const MediaStatus = z.enum(['queued', 'processing', 'ready', 'failed'], {
  error: 'must be queued, processing, ready or failed',
});
export type MediaStatus = z.infer<typeof MediaStatus>;

/** A media object as the public read API returns it: exactly these seven fields, which are a stable interface. */
export const Media = z
  .strictObject({
    id: MediaId,
    created_at: Timestamp,
    content_type: z.string().meta({ description: 'MIME type of the original', example: 'image/jpeg' }),
    bytes: z.int().min(0).meta({ description: 'Size of the original in bytes' }),
    width: z.int().min(0).meta({ description: 'Width in pixels as displayed; 0 for audio' }),
    height: z.int().min(0).meta({ description: 'Height in pixels as displayed; 0 for audio' }),
    status: MediaStatus,
  })
  .meta({ id: 'Media' });
export type Media = z.infer<typeof Media>;

/** A page of media, newest first. `next_cursor` is null on the last page. */
export const MediaList = listOf(Media)
  .extend({
    next_cursor: z.string().nullable().meta({ description: 'Cursor of the next page; null on the last page' }),
  })
  .meta({ id: 'MediaList' });
export type MediaList = z.infer<typeof MediaList>;

/** Opaque pagination cursor; only the server knows its format. */
export const Cursor = z.string().max(512).meta({ description: 'Opaque cursor taken from a previous response' });

export const mediaRoutes = c.router({
  list: {
    method: 'GET',
    path: '/media',
    summary: 'List media',
    description: 'Media objects of the current project, newest first.',
    query: z.object({ limit: Limit, cursor: Cursor.optional() }),
    responses: { ...commonProblems, 200: MediaList },
    metadata: { cacheControl: 'public, max-age=60', query: ['limit', 'cursor'] },
  },
});
