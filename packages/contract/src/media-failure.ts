import { z } from 'zod';

/** Why a media object failed. */
export const MediaFailure = z.strictObject({ code: z.string(), message: z.string(), retryable: z.boolean() });
export type MediaFailure = z.infer<typeof MediaFailure>;
