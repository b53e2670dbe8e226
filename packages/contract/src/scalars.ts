import { z } from 'zod';

/** An instant, ISO 8601 in UTC, second precision, with a trailing `Z`: `2026-01-31T08:15:00Z`. */
export const Timestamp = z
  .string()
  .regex(/^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\dZ$/)
  .meta({ description: 'ISO 8601 in UTC, second precision', example: '2026-01-31T08:15:00Z', format: 'date-time' });
export type Timestamp = z.infer<typeof Timestamp>;

/** `med_` and a lower-case ULID; ids sort by creation time. */
export const MediaId = z
  .string()
  .regex(/^med_[0-9a-z]{26}$/, 'must be med_ and 26 lower-case letters and digits')
  .meta({ description: 'Identifier of a media object', example: 'med_01k0c4s6q8y2v4w6x8z0a2c4e6' });
export type MediaId = z.infer<typeof MediaId>;

/** `ast_` and a lower-case token. */
export const AssetId = z
  .string()
  .regex(/^ast_[0-9a-z]+$/)
  .meta({ description: 'Identifier of an asset record', example: 'ast_01k0c4s6q8y2v4w6x8z0a2c4e6' });
export type AssetId = z.infer<typeof AssetId>;

/** Short region code: lower-case letters, then one digit (`fra1`). */
export const RegionCode = z
  .string()
  .regex(/^[a-z]{2,8}[0-9]$/, 'must be 2 to 8 lower-case letters and a digit, such as fra1')
  .meta({ description: 'Region code', example: 'fra1' });
export type RegionCode = z.infer<typeof RegionCode>;

/** Name of a node, stable across restarts, so that it takes its own place again. */
export const NodeId = z.string().regex(/^[\x21-\x7e]{1,128}$/, 'must be 1 to 128 visible ASCII characters');
export type NodeId = z.infer<typeof NodeId>;

/** Eight hex digits: a hash of all preset parameters that affect the bytes of the rendition. */
export const Revision = z
  .string()
  .regex(/^[0-9a-f]{8}$/)
  .meta({ description: 'Hash of all preset parameters that affect the bytes', example: '5c1d9e02' });
export type Revision = z.infer<typeof Revision>;

/** A SHA-256 in lower-case hex. */
export const Sha256 = z.string().regex(/^[0-9a-f]{64}$/);
export type Sha256 = z.infer<typeof Sha256>;

/** Kind of a media object, a format or a preset. */
export const MediaKind = z.enum(['image', 'video', 'audio']);
export type MediaKind = z.infer<typeof MediaKind>;

/** Bounds of `limit` on every list. */
export const LIMIT = { default: 25, min: 1, max: 100 } as const;

/**
 * Query parameter `limit`: a decimal integer within {@link LIMIT}. Anything else is refused, never clamped. Typed callers may pass a
 * number.
 */
export const Limit = z
  .union([z.number(), z.string().regex(/^\d{1,9}$/, 'must be a whole number')])
  .transform(Number)
  .pipe(z.int().min(LIMIT.min).max(LIMIT.max))
  .default(LIMIT.default)
  .meta({
    openapi: { type: 'integer', minimum: LIMIT.min, maximum: LIMIT.max, default: LIMIT.default },
    description: 'Maximum number of items to return',
  });

/** The list envelope of the promised read interface: `object` and `data`, nothing else. */
export function listOf<T extends z.ZodType>(record: T) {
  return z.strictObject({ object: z.literal('list'), data: z.array(record) });
}

/** Codec names by stream kind; an absent kind does not occur. */
export const Codecs = z.strictObject({
  image: z.array(z.string()).optional(),
  video: z.array(z.string()).optional(),
  audio: z.array(z.string()).optional(),
});
export type Codecs = z.infer<typeof Codecs>;
