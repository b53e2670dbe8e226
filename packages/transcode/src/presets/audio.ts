import { z } from 'zod';
import { Bitrate, Edge, Name, none, Quality, sourceKinds } from './shared.ts';

/** AAC in MP4, normalized to a fixed loudness in two passes: measure, then apply the gain (EBU R 128, ITU-R BS.1770). */
export const AudioPreset = z.strictObject({
  type: z.literal('audio'),
  name: Name,
  kind: z.literal('audio').default('audio'),
  source_kinds: sourceKinds('audio'),
  container: z.literal('mp4').default('mp4'),
  codecs: z.strictObject({ audio: z.literal('aac') }).default({ audio: 'aac' }),
  content_type: z.literal('audio/mp4').default('audio/mp4'),
  extension: z.literal('m4a').default('m4a'),
  width: none,
  height: none,
  fit: none,
  quality: none,
  /** Bits per second for two channels; one channel gets half. */
  bitrate: Bitrate.default(128_000),
  /** Integrated loudness in LUFS: EBU R 128 requires -23; music services use about -14. */
  loudness: z.number().min(-40).max(-8).default(-23),
  /** The highest true peak, in dBTP. */
  true_peak: z.number().min(-9).max(0).default(-1),
});
export type AudioPreset = z.infer<typeof AudioPreset>;

const waveform = {
  type: z.literal('waveform'),
  name: Name,
  source_kinds: sourceKinds('audio'),
  bitrate: none,
};

/** Peaks for drawing a waveform: the JSON of BBC's audiowaveform, version 2, one channel, 8 bits. */
export const WaveformPeaksPreset = z.strictObject({
  ...waveform,
  kind: z.literal('audio').default('audio'),
  container: z.literal('json'),
  codecs: z.strictObject({}).default({}),
  content_type: z.literal('application/json').default('application/json'),
  extension: z.literal('json').default('json'),
  width: none,
  height: none,
  fit: none,
  quality: none,
  /** The most pairs of lowest and highest sample. */
  points: z.int().min(10).max(20_000).default(2_000),
});
export type WaveformPeaksPreset = z.infer<typeof WaveformPeaksPreset>;

/** The waveform as an image with a transparent background. */
export const WaveformPicturePreset = z.strictObject({
  ...waveform,
  kind: z.literal('image').default('image'),
  container: z.literal('webp'),
  codecs: z.strictObject({ image: z.literal('webp') }).default({ image: 'webp' }),
  content_type: z.literal('image/webp').default('image/webp'),
  extension: z.literal('webp').default('webp'),
  width: Edge.default(1_200),
  height: Edge.default(240),
  /** Drawn at exactly this size. */
  fit: z.literal('fill').default('fill'),
  quality: Quality.default(80),
  color: z
    .string()
    .regex(/^#[0-9a-f]{6}$/, 'a colour as #rrggbb in lower case')
    .default('#3b82f6'),
});
export type WaveformPicturePreset = z.infer<typeof WaveformPicturePreset>;

export const WaveformPreset = z.discriminatedUnion('container', [WaveformPeaksPreset, WaveformPicturePreset]);
export type WaveformPreset = z.infer<typeof WaveformPreset>;
