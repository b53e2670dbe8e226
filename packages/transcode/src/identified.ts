import { z } from 'zod';
import { MediaKind } from './media-kind.ts';

/** A ratio of two whole numbers, as containers write frame rates (30000/1001) and sample shapes. */
export const Ratio = z.strictObject({ num: z.int().positive(), den: z.int().positive() });
export type Ratio = z.infer<typeof Ratio>;

/** The start and length of a track in milliseconds of the presentation; null if the container does not record them. */
const trackTimes = { startMs: z.int(), durationMs: z.int().nonnegative().nullable() };

/**
 * The displayed video track. `codedWidth` x `codedHeight` are the stored samples. The file's `width` and `height` are as
 * displayed: `sampleAspect` is applied, then the picture is turned by `rotation` degrees clockwise.
 */
export const VideoTrack = z.strictObject({
  ...trackTimes,
  /** Index among all streams of the file, as `-map 0:INDEX` takes it. */
  index: z.int().nonnegative(),
  codec: z.string(),
  profile: z.string().nullable(),
  /** In the codec's own units: 41 is level 4.1 of H.264. */
  level: z.int().nullable(),
  pixelFormat: z.string(),
  codedWidth: z.int().positive(),
  codedHeight: z.int().positive(),
  sampleAspect: Ratio,
  rotation: z.union([z.literal(0), z.literal(90), z.literal(180), z.literal(270)]),
  /** Frames per second: the average over the track. If the rate varies, that of the moving parts. */
  frameRate: Ratio,
  /** The distance between frames varies. */
  variableFrameRate: z.boolean(),
  /** Total number of frames; null if only decoding would reveal it. */
  frames: z.int().positive().nullable(),
  /** Bits per second. */
  bitrate: z.int().positive().nullable(),
  interlaced: z.boolean(),
  hasAlpha: z.boolean(),
  /** Transfer function of high dynamic range (ITU-R BT.2100): PQ or HLG; null for standard range. */
  hdr: z.enum(['pq', 'hlg']).nullable(),
});
export type VideoTrack = Readonly<z.infer<typeof VideoTrack>>;

/** One audio track. `language` is the container's ISO 639-2 code. `isDefault`: the track to play if nobody chooses. */
export const AudioTrack = z.strictObject({
  ...trackTimes,
  index: z.int().nonnegative(),
  codec: z.string(),
  profile: z.string().nullable(),
  channels: z.int().positive(),
  sampleRate: z.int().positive(),
  bitrate: z.int().positive().nullable(),
  language: z.string().nullable(),
  isDefault: z.boolean(),
});
export type AudioTrack = Readonly<z.infer<typeof AudioTrack>>;

/** The tracks of a video or audio file. Cover art is an image in an audio file; it never counts as video. */
export const Tracks = z.strictObject({
  video: VideoTrack.nullable(),
  audio: z.array(AudioTrack),
  coverArt: z.boolean(),
  /** Bits per second of the whole file. */
  bitrate: z.int().positive().nullable(),
});
export type Tracks = Readonly<z.infer<typeof Tracks>>;

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
  /** Null for images. */
  tracks: Tracks.nullable(),
  warnings: z.array(z.string()),
});

declare const identified: unique symbol;

/**
 * The facts that the engine found in the bytes of a file. Branded: only `identify` makes one, and only `parseIdentified`
 * restores one, so a file that was not identified cannot be rendered. Otherwise it is plain JSON.
 *
 * `width` and `height` are as displayed (after EXIF orientation, `irot` and `imir`), of one frame of an animation.
 * `format` is an id of the format registry. `orientation` is the EXIF value 1 to 8 that was applied; 1 if there was none.
 * `durationMs` is null for still images. `colorSpace` and `bitDepth` describe the source.
 * `warnings` are sentences for a person: what was ignored or seemed damaged.
 */
export type IdentifiedFile = Readonly<z.infer<typeof IdentifiedFields>> & { readonly [identified]: true };

/** The facts before they are branded. */
export type IdentifiedFields = z.infer<typeof IdentifiedFields>;

/** Restores an `IdentifiedFile` from its JSON. Throws a `ZodError` for anything that the engine did not write. */
export function parseIdentified(json: unknown): IdentifiedFile {
  return IdentifiedFields.parse(json) as IdentifiedFile;
}
