import { codecFamily } from '../../formats-av.ts';
import type { AudioTrack, Ratio, Tracks, VideoTrack } from '../../identified.ts';
import { playedAudio } from '../../plan.ts';
import { type Probe, type ProbedStream, seconds } from './probe.ts';

type Rotation = VideoTrack['rotation'];

/** Streams sorted by their purpose. */
export interface Streams {
  /** Video streams; the first is shown. */
  readonly video: readonly ProbedStream[];
  /** Audio streams in the order of the file. */
  readonly audio: readonly ProbedStream[];
  readonly coverArt: boolean;
}

/** Cover art and thumbnails are video streams to ffmpeg, but images to a person. */
export function sortStreams(streams: readonly ProbedStream[]): Streams {
  const isPicture = ({ disposition }: ProbedStream) =>
    disposition['attached_pic'] === 1 || disposition['timed_thumbnails'] === 1 || disposition['still_image'] === 1;
  const ofType = (type: string) => streams.filter(({ codec_type }) => codec_type === type);
  const defaultFirst = (list: readonly ProbedStream[]) =>
    [...list].sort((a, b) => Number(isDefault(b)) - Number(isDefault(a)));
  return {
    video: defaultFirst(ofType('video').filter((stream) => !isPicture(stream))),
    audio: ofType('audio'),
    coverArt: ofType('video').some(isPicture),
  };
}

function isDefault({ disposition }: ProbedStream): boolean {
  return disposition['default'] === 1;
}

/** ffmpeg's name of a codec, else its tag if printable, else `unknown`. */
export function codecOf({ codec_name, codec_tag_string }: ProbedStream): string {
  if (codec_name !== undefined && codec_name !== 'unknown' && codec_name !== 'none') return codec_name;
  return printableTag(codec_tag_string) ?? 'unknown';
}

function printableTag(tag: string | undefined): string | null {
  return tag !== undefined && /^[\w .-]{4}$/.test(tag) ? tag.trim() : null;
}

/** The video track, without the facts that only packets reveal. Null if it has no size. */
export function videoTrack(stream: ProbedStream, bitrate: number | null): VideoTrack | null {
  const { width = 0, height = 0 } = stream;
  if (width < 1 || height < 1) return null;
  const { rotation } = displayMatrix(stream);
  return {
    index: stream.index,
    ...timesOf(stream),
    codec: codecOf(stream),
    profile: stream.profile === undefined || stream.profile === 'unknown' ? null : String(stream.profile),
    level: stream.level !== undefined && stream.level > 0 ? stream.level : null,
    pixelFormat: stream.pix_fmt ?? 'unknown',
    codedWidth: width,
    codedHeight: height,
    sampleAspect: sampleAspect(stream),
    rotation,
    frameRate: ratio(stream.avg_frame_rate) ?? ratio(stream.r_frame_rate) ?? { num: 25, den: 1 },
    variableFrameRate: false,
    frames: positive(stream.nb_frames),
    bitrate: bitrateOf(stream) ?? bitrate,
    interlaced: ['tt', 'bb', 'tb', 'bt'].includes(stream.field_order ?? ''),
    hasAlpha: hasAlpha(stream),
    hdr: stream.color_transfer === 'smpte2084' ? 'pq' : stream.color_transfer === 'arib-std-b67' ? 'hlg' : null,
  };
}

/** An audio track. Null if it has no sample rate or channels, because then it cannot be decoded. */
export function audioTrack(stream: ProbedStream): AudioTrack | null {
  const sampleRate = positive(stream.sample_rate);
  if (sampleRate === null || stream.channels === undefined || stream.channels < 1) return null;
  const language = tag(stream, 'language');
  return {
    index: stream.index,
    ...timesOf(stream),
    codec: codecOf(stream),
    profile: stream.profile === undefined || stream.profile === 'unknown' ? null : String(stream.profile),
    channels: stream.channels,
    sampleRate,
    bitrate: bitrateOf(stream),
    language: language === undefined || language === 'und' ? null : language,
    isDefault: isDefault(stream),
  };
}

/** Names of the codecs as the formats list them. */
export function codecsOf(tracks: Tracks): { video?: string; audio?: string } {
  const played = playedAudio(tracks.audio);
  return {
    ...(tracks.video ? { video: tracks.video.codec } : {}),
    ...(played ? { audio: codecFamily(played.codec) } : {}),
  };
}

/** Size as displayed: pixels stretched to their shape, then rotated. */
export function displayedSize({ codedWidth, codedHeight, sampleAspect, rotation }: VideoTrack) {
  const width = Math.max(1, Math.round((codedWidth * sampleAspect.num) / sampleAspect.den));
  return rotation === 90 || rotation === 270 ? { width: codedHeight, height: width } : { width, height: codedHeight };
}

/** Bits per sample of one component. */
export function bitDepthOf(stream: ProbedStream): number {
  const stated = positive(stream.bits_per_raw_sample) ?? (stream.bits_per_sample || null);
  if (stated !== null) return stated;
  if (stream.codec_type === 'audio') return 16;
  const inName = /(?:p|gray|p0|x2rgb|x2bgr)(9|10|12|14|16)(?:le|be)$/.exec(stream.pix_fmt ?? '')?.[1];
  return inName === undefined ? 8 : Number(inName);
}

/** Bits per second of the only stream without its own bit rate: the rest after all others. */
export function remainingBitrate(probe: Probe): number | null {
  const whole = positive(probe.format.bit_rate);
  if (whole === null) return null;
  const known = probe.streams.reduce((sum, stream) => sum + (bitrateOf(stream) ?? 0), 0);
  return whole > known ? whole - known : whole;
}

/** Rotation in degrees clockwise, and whether the picture is also mirrored. */
export function displayMatrix(stream: ProbedStream): { rotation: Rotation; mirrored: boolean; skewed: boolean } {
  const side = stream.side_data_list.find(({ rotation }) => rotation !== undefined);
  // ffprobe counts anticlockwise.
  const clockwise = (((-(side?.rotation ?? 0) % 360) + 360) % 360) as number;
  const quarter = (Math.round(clockwise / 90) * 90) % 360;
  const matrix = [...(side?.displaymatrix ?? '').matchAll(/\d{8}:((?:\s+-?\d+){3})/g)].map(([, row = '']) =>
    row.trim().split(/\s+/).map(Number),
  );
  const [[a = 1, b = 0] = [], [c = 0, d = 1] = []] = matrix;
  return {
    rotation: quarter as Rotation,
    mirrored: a * d - b * c < 0,
    skewed: Math.abs(clockwise - quarter) % 360 > 1,
  };
}

/** A larger ratio is a mistake in the file, not a real lens. */
const maxSampleAspect = 10;

function sampleAspect({ sample_aspect_ratio }: ProbedStream): Ratio {
  const aspect = ratio(sample_aspect_ratio, ':') ?? { num: 1, den: 1 };
  const shape = aspect.num / aspect.den;
  return shape > maxSampleAspect || shape < 1 / maxSampleAspect ? { num: 1, den: 1 } : aspect;
}

function hasAlpha(stream: ProbedStream): boolean {
  if (tag(stream, 'alpha_mode') === '1') return true;
  return /^(yuva|gbrap|rgba|bgra|argb|abgr|ya8|ya16)/.test(stream.pix_fmt ?? '');
}

function timesOf(stream: ProbedStream): { startMs: number; durationMs: number | null } {
  const durationS = lengthOf(stream);
  return {
    startMs: Math.round((seconds(stream.start_time) ?? 0) * 1_000),
    durationMs: durationS === null || durationS < 0 ? null : Math.round(durationS * 1_000),
  };
}

/** Duration of a stream in seconds, as the file records it. */
export function lengthOf(stream: ProbedStream): number | null {
  return seconds(stream.duration) ?? clock(tag(stream, 'duration'));
}

/** Matroska's `00:01:02.500000000` in seconds. */
function clock(text: string | undefined): number | null {
  const [, hours, minutes, rest] = /^(\d+):(\d+):(\d+(?:\.\d+)?)$/.exec(text ?? '') ?? [];
  return hours === undefined ? null : Number(hours) * 3_600 + Number(minutes) * 60 + Number(rest);
}

function bitrateOf(stream: ProbedStream): number | null {
  return positive(stream.bit_rate) ?? positive(tag(stream, 'bps'));
}

/** Containers spell tag names differently, and some add the language. */
function tag({ tags }: ProbedStream, name: string): string | undefined {
  return Object.entries(tags).find(([key]) => key.toLowerCase().split('-')[0] === name)?.[1];
}

/** A ratio as ffprobe writes it; null for `0/0` and anything invalid. */
export function ratio(text: string | undefined, separator: '/' | ':' = '/'): Ratio | null {
  const [num = 0, den = 0] = (text ?? '').split(separator).map(Number);
  return Number.isSafeInteger(num) && Number.isSafeInteger(den) && num > 0 && den > 0 ? { num, den } : null;
}

function positive(text: string | undefined): number | null {
  const value = Math.round(Number(text ?? Number.NaN));
  return Number.isSafeInteger(value) && value > 0 ? value : null;
}
