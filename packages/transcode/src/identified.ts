import { z } from 'zod';
import { MediaKind } from './media-kind.ts';

/** A ratio of two whole numbers, as containers write frame rates (30000/1001) and sample shapes. */
export const Ratio = z.strictObject({ num: z.int().positive(), den: z.int().positive() });
export type Ratio = z.infer<typeof Ratio>;

/** Where a track starts and how long it is, in milliseconds of the presentation; null where the container does not say. */
const trackTimes = { startMs: z.int(), durationMs: z.int().nonnegative().nullable() };

/**
 * The video track that is shown. `codedWidth` x `codedHeight` are the stored samples; the file's `width` and `height` are as
 * displayed: `sampleAspect` applied, then turned by `rotation` degrees clockwise.
 */
export const VideoTrack = z.strictObject({
  ...trackTimes,
  /** Index among all streams of the file, as `-map 0:INDEX` takes it. */
  index: z.int().nonnegative(),
  codec: z.string(),
  profile: z.string().nullable(),
  /** As the codec counts it: 41 is level 4.1 of H.264. */
  level: z.int().nullable(),
  pixelFormat: z.string(),
  codedWidth: z.int().positive(),
  codedHeight: z.int().positive(),
  sampleAspect: Ratio,
  rotation: z.union([z.literal(0), z.literal(90), z.literal(180), z.literal(270)]),
  /** Frames a second: the average over the track, but where the rate changes, that of the parts that move. */
  frameRate: Ratio,
  /** The distance between frames changes. */
  variableFrameRate: z.boolean(),
  /** Frames in all; null where only decoding would tell. */
  frames: z.int().positive().nullable(),
  /** Bits per second. */
  bitrate: z.int().positive().nullable(),
  interlaced: z.boolean(),
  hasAlpha: z.boolean(),
  /** Transfer function of high dynamic range (ITU-R BT.2100): PQ or HLG; null for what any screen shows. */
  hdr: z.enum(['pq', 'hlg']).nullable(),
});
export type VideoTrack = Readonly<z.infer<typeof VideoTrack>>;

/** One audio track. `language` is ISO 639-2 as the container has it; `isDefault`: the one to play where nobody chose. */
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

/** The tracks of a video or a sound. Cover art is a picture that a sound carries, never its video. */
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
