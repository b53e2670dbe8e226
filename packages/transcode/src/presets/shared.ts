import { z } from 'zod';
import { MediaKind } from '../media-kind.ts';

export const Quality = z.int().min(1).max(100);

/** `hls` and `manifest` are reserved: the delivery path uses them. The picture preset refuses `hls`. */
export const Name = z
  .string()
  .regex(/^[a-z][a-z0-9_-]{0,31}$/, 'a lower-case letter, then up to 31 letters, digits, "-" or "_"')
  .refine((name) => name !== 'manifest', 'this name is reserved for a part of the delivery path');

export const Edge = z.int().min(1).max(16_384);

/** Bits per second. */
export const Bitrate = z.int().min(8_000).max(200_000_000);

/** Kinds of source that a preset applies to. */
export const sourceKinds = (...kinds: MediaKind[]) => z.array(MediaKind).min(1).default(kinds);

/** Always null: a field that every preset shows but that has no meaning for this one. */
export const none = z.null().default(null);
