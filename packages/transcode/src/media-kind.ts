import { z } from 'zod';

/** What a media object is to a person. */
export const MediaKind = z.enum(['image', 'video', 'audio']);
export type MediaKind = z.infer<typeof MediaKind>;
