import { z } from 'zod';
import { MediaKind } from './media-kind.ts';

const IdentifiedFields = z.strictObject({
  kind: MediaKind,
  format: z.string(),
  contentType: z.string(),
  extension: z.string(),
  bytes: z.int().positive(),
  width: z.int().nonnegative(),
  height: z.int().nonnegative(),
  durationMs: z.int().nonnegative().nullable(),
  frames: z.int().positive(),
  codecs: z
    .strictObject({ image: z.string(), video: z.string(), audio: z.string() })
    .partial()
    .transform((codecs) => codecs as { image?: string; video?: string; audio?: string }),
  hasAlpha: z.boolean(),
  orientation: z.int().min(1).max(8),
  colorSpace: z.string(),
  bitDepth: z.int().positive(),
  icc: z.boolean(),
  warnings: z.array(z.string()),
});

declare const identified: unique symbol;

/**
 * What the engine found a file to be, by its bytes. Branded: only `identify` makes one, and only `parseIdentified`
 * restores one, so that a file nobody looked at cannot be rendered. Plain JSON otherwise.
 *
 * `width` and `height` are as displayed (after EXIF orientation, `irot` and `imir`), of one frame of an animation.
 * `format` is an id of the format registry. `orientation` is the EXIF value 1 to 8 that was applied to get there; 1
 * where there was none. `durationMs` is null for what does not move. `colorSpace` and `bitDepth` describe the source.
 * `warnings` are sentences for a person: what was ignored or looked damaged.
 */
export type IdentifiedFile = Readonly<z.infer<typeof IdentifiedFields>> & { readonly [identified]: true };

/** What identification fills in before it is branded. */
export type IdentifiedFields = z.infer<typeof IdentifiedFields>;

/** Restores an `IdentifiedFile` that was kept as JSON. Throws a `ZodError` for anything that the engine did not write. */
export function parseIdentified(json: unknown): IdentifiedFile {
  return IdentifiedFields.parse(json) as IdentifiedFile;
}
