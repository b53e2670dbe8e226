import { execFileSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { extname } from 'node:path';
import type { Programs } from '../src/ffmpeg/programs.ts';
import { type IdentifiedFile, parseIdentified } from '../src/identified.ts';

interface ProbedStream {
  index: number;
  codec_type: string;
  codec_name: string;
  profile?: string;
  level?: number;
  width?: number;
  height?: number;
  pix_fmt?: string;
  sample_aspect_ratio?: string;
  avg_frame_rate?: string;
  r_frame_rate?: string;
  nb_frames?: string;
  bit_rate?: string;
  field_order?: string;
  color_transfer?: string;
  color_space?: string;
  channels?: number;
  sample_rate?: string;
  start_time?: string;
  duration?: string;
  disposition: { default: number; attached_pic: number };
  tags?: Record<string, string>;
  side_data_list?: Array<{ rotation?: number }>;
}

const formatsByExtension: Readonly<Record<string, string>> = { '.ts': 'mpegts' };

/** Here a statically linked ffmpeg finds none of the system's modules for character sets, on which it crashes. */
export const plainEnvironment = { LANG: 'C', GCONV_PATH: '/nonexistent' };

/** The facts that ffprobe reports for a file made by a test. Only for tests of rendering: it refuses nothing. */
export function identifyForTests(path: string, programs: Programs): IdentifiedFile {
  const args = ['-v', 'error', '-of', 'json', '-show_format', '-show_streams', path];
  const probed = JSON.parse(execFileSync(programs.ffprobe.path, args, { encoding: 'utf8', env: plainEnvironment })) as {
    streams: ProbedStream[];
    format: { duration?: string; bit_rate?: string };
  };
  const extension = extname(path).slice(1);
  const stream = probed.streams.find((s) => s.codec_type === 'video' && s.disposition.attached_pic === 0);
  const audioStreams = probed.streams.filter((s) => s.codec_type === 'audio');
  const video = stream === undefined ? null : videoOf(stream);
  const aspect = video === null ? 1 : video.sampleAspect.num / video.sampleAspect.den;
  const upright = video === null || video.rotation % 180 === 0;
  const squared = video === null ? [0, 0] : [Math.round(video.codedWidth * aspect), video.codedHeight];
  return parseIdentified({
    kind: video === null ? 'audio' : 'video',
    format: formatsByExtension[extname(path)] ?? extension,
    contentType: `${video === null ? 'audio' : 'video'}/x-test`,
    extension,
    bytes: statSync(path).size,
    width: upright ? squared[0] : squared[1],
    height: upright ? squared[1] : squared[0],
    durationMs: probed.format.duration === undefined ? null : ms(probed.format.duration),
    frames: video?.frames ?? 1,
    codecs: {
      ...(video === null ? {} : { video: video.codec }),
      ...(audioStreams[0] === undefined ? {} : { audio: audioStreams[0].codec_name }),
    },
    hasAlpha: video?.hasAlpha ?? false,
    orientation: 1,
    colorSpace: stream?.color_space ?? 'unknown',
    bitDepth: 8,
    icc: false,
    tracks: {
      video,
      audio: audioStreams.map((s) => ({
        ...times(s),
        index: s.index,
        codec: s.codec_name,
        profile: s.profile ?? null,
        channels: s.channels ?? 1,
        sampleRate: Number(s.sample_rate),
        bitrate: s.bit_rate === undefined ? null : Number(s.bit_rate),
        language: s.tags?.['language'] ?? null,
        isDefault: s.disposition.default === 1,
      })),
      coverArt: probed.streams.some((s) => s.disposition.attached_pic === 1),
      bitrate: probed.format.bit_rate === undefined ? null : Number(probed.format.bit_rate),
    },
    warnings: [],
  });
}

function videoOf(s: ProbedStream) {
  const rotation = s.side_data_list?.find((data) => data.rotation !== undefined)?.rotation ?? 0;
  const average = ratio(s.avg_frame_rate, '/');
  const base = ratio(s.r_frame_rate, '/');
  return {
    ...times(s),
    index: s.index,
    codec: s.codec_name,
    profile: s.profile ?? null,
    level: s.level === undefined || s.level < 0 ? null : s.level,
    pixelFormat: s.pix_fmt ?? 'yuv420p',
    codedWidth: s.width ?? 1,
    codedHeight: s.height ?? 1,
    sampleAspect: ratio(s.sample_aspect_ratio, ':'),
    // ffprobe counts anticlockwise.
    rotation: ((-rotation % 360) + 360) % 360,
    frameRate: average,
    variableFrameRate: Math.abs(average.num / average.den - base.num / base.den) > 0.01,
    frames: s.nb_frames === undefined ? null : Number(s.nb_frames),
    bitrate: s.bit_rate === undefined ? null : Number(s.bit_rate),
    interlaced: s.field_order !== undefined && !['progressive', 'unknown'].includes(s.field_order),
    hasAlpha:
      s.tags?.['alpha_mode'] === '1' || s.tags?.['ALPHA_MODE'] === '1' || /^(yuva|rgba|argb)/.test(s.pix_fmt ?? ''),
    hdr: s.color_transfer === 'smpte2084' ? 'pq' : s.color_transfer === 'arib-std-b67' ? 'hlg' : null,
  };
}

function ratio(text: string | undefined, separator: string): { num: number; den: number } {
  const [num, den] = (text ?? '').split(separator).map(Number);
  return num !== undefined && den !== undefined && num > 0 && den > 0 ? { num, den } : { num: 1, den: 1 };
}

function times(s: ProbedStream) {
  return {
    startMs: s.start_time === undefined ? 0 : ms(s.start_time),
    durationMs: s.duration === undefined ? null : ms(s.duration),
  };
}

function ms(seconds: string): number {
  return Math.round(Number(seconds) * 1_000);
}
