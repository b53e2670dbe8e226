import { z } from 'zod';
import { Bitrate, Edge, Name, none, Quality, sourceKinds } from './shared.ts';

const H264Aac = z.strictObject({ video: z.literal('h264'), audio: z.literal('aac') });
const h264Aac = { video: 'h264', audio: 'aac' } as const;

/** How hard x264 works to save bytes: its own preset names. */
export const X264Speed = z.enum(['ultrafast', 'superfast', 'veryfast', 'faster', 'fast', 'medium', 'slow', 'slower']);

/** Constant rate factor of x264: 18 looks like the source, 23 is the default, 51 is the worst. */
const Crf = z.int().min(0).max(51);

/**
 * One rung of a ladder. The box is for landscape video and is turned for portrait video. `name` is used in playlists and
 * paths. `bitrate` is the most bits that any one second may have; simple scenes need less.
 */
export const RungPreset = z.strictObject({
  name: z
    .string()
    .regex(/^[a-z0-9]{1,16}$/, 'up to 16 lower-case letters and digits')
    .refine((name) => name !== 'master' && name !== 'audio', 'this name is reserved for a playlist'),
  width: Edge,
  height: Edge,
  bitrate: Bitrate,
});
export type RungPreset = z.infer<typeof RungPreset>;

/**
 * HTTP Live Streaming (RFC 8216) with CMAF segments (ISO/IEC 23000-19). Each rung has a playlist, and so has the audio. All
 * rungs have segments of equal length. Rungs larger than the source are left out. An audio source gets only the audio playlist.
 */
export const HlsPreset = z.strictObject({
  type: z.literal('hls'),
  name: z.literal('hls').default('hls'),
  kind: z.literal('video').default('video'),
  source_kinds: sourceKinds('video', 'audio'),
  container: z.literal('hls').default('hls'),
  codecs: H264Aac.default(h264Aac),
  content_type: z.literal('application/vnd.apple.mpegurl').default('application/vnd.apple.mpegurl'),
  extension: z.literal('m3u8').default('m3u8'),
  /** Box of the largest rung. */
  width: Edge.nullable().default(1920),
  height: Edge.nullable().default(1080),
  fit: z.literal('inside').default('inside'),
  quality: none,
  bitrate: none,
  rungs: z
    .array(RungPreset)
    .min(1)
    .max(12)
    .refine((rungs) => new Set(rungs.map(({ name }) => name)).size === rungs.length, 'two rungs have the same name')
    .default([
      { name: '1080p', width: 1920, height: 1080, bitrate: 6_000_000 },
      { name: '720p', width: 1280, height: 720, bitrate: 3_000_000 },
      { name: '480p', width: 854, height: 480, bitrate: 1_500_000 },
      { name: '360p', width: 640, height: 360, bitrate: 800_000 },
    ]),
  segment_seconds: z.int().min(1).max(12).default(4),
  crf: Crf.default(23),
  speed: X264Speed.default('veryfast'),
  audio_bitrate: Bitrate.default(128_000),
});
export type HlsPreset = z.infer<typeof HlsPreset>;

/** One MP4 file that plays while it downloads, because its index comes first. The box is turned for portrait video. */
export const Mp4Preset = z.strictObject({
  type: z.literal('mp4'),
  name: Name,
  kind: z.literal('video').default('video'),
  source_kinds: sourceKinds('video'),
  container: z.literal('mp4').default('mp4'),
  codecs: H264Aac.default(h264Aac),
  content_type: z.literal('video/mp4').default('video/mp4'),
  extension: z.literal('mp4').default('mp4'),
  width: Edge.nullable().default(1280),
  height: Edge.nullable().default(720),
  fit: z.literal('inside').default('inside'),
  quality: none,
  bitrate: Bitrate.default(3_000_000),
  crf: Crf.default(23),
  speed: X264Speed.default('veryfast'),
  audio_bitrate: Bitrate.default(128_000),
});
export type Mp4Preset = z.infer<typeof Mp4Preset>;

/** A few seconds as a silent animated WebP, starting at the poster frame. */
export const PreviewPreset = z.strictObject({
  type: z.literal('preview'),
  name: Name,
  kind: z.literal('image').default('image'),
  source_kinds: sourceKinds('video'),
  container: z.literal('webp').default('webp'),
  codecs: z.strictObject({ image: z.literal('webp') }).default({ image: 'webp' }),
  content_type: z.literal('image/webp').default('image/webp'),
  extension: z.literal('webp').default('webp'),
  width: Edge.nullable().default(480),
  height: Edge.nullable().default(480),
  fit: z.literal('inside').default('inside'),
  quality: Quality.default(60),
  bitrate: none,
  seconds: z.number().min(0.5).max(10).default(3),
  /** The highest frame rate; a source with a lower one keeps it. */
  frame_rate: z.int().min(1).max(30).default(10),
});
export type PreviewPreset = z.infer<typeof PreviewPreset>;

const storyboard = {
  type: z.literal('storyboard'),
  name: Name,
  kind: z.literal('image').default('image'),
  source_kinds: sourceKinds('video'),
  fit: z.literal('inside').default('inside'),
  bitrate: none,
  /** Box of one tile. */
  width: Edge.nullable().default(160),
  height: Edge.nullable().default(160),
  /** Tiles side by side. */
  columns: z.int().min(1).max(20).default(10),
  /** The most tiles; in a long video they are further apart. */
  max_tiles: z.int().min(1).max(400).default(100),
};

/** Frames of a video side by side in one image, for previews on a player's seek bar. */
export const StoryboardSpritePreset = z.strictObject({
  ...storyboard,
  container: z.literal('jpeg'),
  codecs: z.strictObject({ image: z.literal('jpeg') }).default({ image: 'jpeg' }),
  content_type: z.literal('image/jpeg').default('image/jpeg'),
  extension: z.literal('jpg').default('jpg'),
  quality: Quality.default(70),
});
export type StoryboardSpritePreset = z.infer<typeof StoryboardSpritePreset>;

/** Maps times to tiles of the sprite with the same name: WebVTT with media fragments (`#xywh=`). */
export const StoryboardIndexPreset = z.strictObject({
  ...storyboard,
  container: z.literal('vtt'),
  codecs: z.strictObject({}).default({}),
  content_type: z.literal('text/vtt').default('text/vtt'),
  extension: z.literal('vtt').default('vtt'),
  /** The quality of the sprite. The index names the exact revision of its sprite. */
  quality: Quality.default(70),
});
export type StoryboardIndexPreset = z.infer<typeof StoryboardIndexPreset>;

export const StoryboardPreset = z.discriminatedUnion('container', [StoryboardSpritePreset, StoryboardIndexPreset]);
export type StoryboardPreset = z.infer<typeof StoryboardPreset>;
