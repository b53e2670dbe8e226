import type { MediaKind } from './media-kind.ts';

/** Ids of the video and audio formats; each needs a sample in `samples/`. */
export type AvFormatId =
  | 'mp4'
  | 'm4a'
  | 'mov'
  | 'webm'
  | 'weba'
  | 'mkv'
  | 'mka'
  | 'mpegts'
  | 'avi'
  | 'ogv'
  | 'ogg'
  | 'opus'
  | 'mp3'
  | 'wav'
  | 'flac'
  | 'aac';

/** A container that can be recognized by a file's bytes. Its streams decide the format. */
export type AvContainer =
  | 'mp4'
  | 'mov'
  | 'webm'
  | 'matroska'
  | 'mpegts'
  | 'avi'
  | 'ogg'
  | 'mp3'
  | 'wav'
  | 'flac'
  | 'aac';

interface AvFormat {
  readonly kind: Exclude<MediaKind, 'image'>;
  readonly container: AvContainer;
  readonly extensions: readonly [string, ...string[]];
  readonly contentTypes: readonly [string, ...string[]];
  readonly codecs: { readonly video?: readonly string[]; readonly audio?: readonly string[] };
  /** The name in messages, usable after "this" and "the". */
  readonly names: string;
}

/** `pcm` stands for uncompressed samples of every size and byte order. */
const anyAudio = ['aac', 'mp3', 'mp2', 'opus', 'vorbis', 'flac', 'alac', 'ac3', 'eac3', 'pcm'];

/**
 * The accepted video and audio formats. Two ids share a container if players and browsers distinguish its video files from its
 * audio files. The other containers hold both under one id.
 */
export const avFormats: Readonly<Record<AvFormatId, AvFormat>> = {
  mp4: {
    kind: 'video',
    container: 'mp4',
    extensions: ['mp4', 'm4v'],
    contentTypes: ['video/mp4', 'video/x-m4v'],
    codecs: {
      video: ['h264', 'hevc', 'av1', 'vp9', 'mpeg4', 'mpeg2video', 'mjpeg'],
      audio: anyAudio,
    },
    names: 'MP4',
  },
  m4a: {
    kind: 'audio',
    container: 'mp4',
    extensions: ['m4a', 'm4b'],
    contentTypes: ['audio/mp4', 'audio/x-m4a'],
    codecs: { audio: anyAudio },
    names: 'M4A',
  },
  mov: {
    kind: 'video',
    container: 'mov',
    extensions: ['mov', 'qt'],
    contentTypes: ['video/quicktime'],
    codecs: {
      video: ['h264', 'hevc', 'av1', 'vp9', 'mpeg4', 'mpeg2video', 'prores', 'mjpeg', 'png'],
      audio: anyAudio,
    },
    names: 'MOV',
  },
  webm: {
    kind: 'video',
    container: 'webm',
    extensions: ['webm'],
    contentTypes: ['video/webm'],
    codecs: { video: ['vp8', 'vp9', 'av1'], audio: ['opus', 'vorbis'] },
    names: 'WebM',
  },
  weba: {
    kind: 'audio',
    container: 'webm',
    extensions: ['weba'],
    contentTypes: ['audio/webm'],
    codecs: { audio: ['opus', 'vorbis'] },
    names: 'WebM audio file',
  },
  mkv: {
    kind: 'video',
    container: 'matroska',
    extensions: ['mkv'],
    contentTypes: ['video/x-matroska', 'video/matroska'],
    codecs: {
      video: ['h264', 'hevc', 'av1', 'vp8', 'vp9', 'mpeg2video', 'mpeg4', 'prores', 'mjpeg'],
      audio: anyAudio,
    },
    names: 'Matroska file',
  },
  mka: {
    kind: 'audio',
    container: 'matroska',
    extensions: ['mka'],
    contentTypes: ['audio/x-matroska', 'audio/matroska'],
    codecs: { audio: anyAudio },
    names: 'Matroska audio file',
  },
  mpegts: {
    kind: 'video',
    container: 'mpegts',
    extensions: ['ts', 'm2ts', 'mts'],
    contentTypes: ['video/mp2t'],
    codecs: { video: ['h264', 'hevc', 'mpeg2video', 'mpeg4'], audio: ['aac', 'mp3', 'mp2', 'ac3', 'eac3', 'opus'] },
    names: 'MPEG transport stream',
  },
  avi: {
    kind: 'video',
    container: 'avi',
    extensions: ['avi'],
    contentTypes: ['video/x-msvideo', 'video/vnd.avi'],
    codecs: { video: ['mpeg4', 'h264', 'mjpeg', 'mpeg2video'], audio: ['mp3', 'mp2', 'ac3', 'aac', 'pcm'] },
    names: 'AVI',
  },
  ogv: {
    kind: 'video',
    container: 'ogg',
    extensions: ['ogv'],
    contentTypes: ['video/ogg'],
    codecs: { video: ['vp8'], audio: ['vorbis', 'opus', 'flac'] },
    names: 'Ogg video',
  },
  ogg: {
    kind: 'audio',
    container: 'ogg',
    extensions: ['ogg', 'oga'],
    contentTypes: ['audio/ogg'],
    codecs: { audio: ['vorbis', 'flac'] },
    names: 'Ogg audio file',
  },
  opus: {
    kind: 'audio',
    container: 'ogg',
    extensions: ['opus'],
    contentTypes: ['audio/ogg', 'audio/opus'],
    codecs: { audio: ['opus'] },
    names: 'Opus file',
  },
  mp3: {
    kind: 'audio',
    container: 'mp3',
    extensions: ['mp3'],
    contentTypes: ['audio/mpeg', 'audio/mp3'],
    codecs: { audio: ['mp3'] },
    names: 'MP3',
  },
  wav: {
    kind: 'audio',
    container: 'wav',
    extensions: ['wav', 'wave'],
    contentTypes: ['audio/wav', 'audio/x-wav', 'audio/vnd.wave'],
    codecs: { audio: ['pcm'] },
    names: 'WAV',
  },
  flac: {
    kind: 'audio',
    container: 'flac',
    extensions: ['flac'],
    contentTypes: ['audio/flac', 'audio/x-flac'],
    codecs: { audio: ['flac'] },
    names: 'FLAC',
  },
  aac: {
    kind: 'audio',
    container: 'aac',
    extensions: ['aac'],
    contentTypes: ['audio/aac', 'audio/aacp'],
    codecs: { audio: ['aac'] },
    names: 'AAC',
  },
};

/** ffmpeg's demuxer for each container, as `-f` takes it. */
export const demuxers: Readonly<Record<AvContainer, string>> = {
  mp4: 'mov',
  mov: 'mov',
  webm: 'matroska',
  matroska: 'matroska',
  mpegts: 'mpegts',
  avi: 'avi',
  ogg: 'ogg',
  mp3: 'mp3',
  wav: 'wav',
  flac: 'flac',
  aac: 'aac',
};

/**
 * ffmpeg's decoders for the accepted codecs, and no others, because decoders of rare formats are the ones that break. PNG and
 * MJPEG are also the formats of cover art. libvpx and libvpx-vp9 are here for alpha, which ffmpeg's own decoders lack.
 */
export const acceptedDecoders: readonly string[] = [
  ...['h264', 'hevc', 'libdav1d', 'libaom-av1', 'av1', 'vp8', 'libvpx', 'vp9', 'libvpx-vp9'],
  ...['mpeg2video', 'mpeg4', 'prores', 'mjpeg', 'png'],
  ...[
    'aac',
    'mp3float',
    'mp3',
    'mp2float',
    'mp2',
    'opus',
    'libopus',
    'vorbis',
    'libvorbis',
    'flac',
    'alac',
    'ac3',
    'eac3',
  ],
  ...['pcm_u8', 'pcm_s8', 'pcm_s16le', 'pcm_s16be', 'pcm_s24le', 'pcm_s24be', 'pcm_s32le', 'pcm_s32be'],
  ...['pcm_f32le', 'pcm_f32be', 'pcm_f64le', 'pcm_f64be', 'pcm_alaw', 'pcm_mulaw'],
];

/**
 * Decoders for streams that files often hold besides the accepted ones: subtitles, further audio codecs, cover art. Such
 * streams are left out, or named in the refusal. Opening these decoders reads little or nothing of the file.
 */
export const openedDecoders: readonly string[] = [
  ...['subrip', 'srt', 'ass', 'ssa', 'mov_text', 'webvtt', 'text', 'dvdsub', 'dvbsub', 'pgssub', 'xsub', 'cc_dec'],
  ...['libzvbi_teletextdec', 'libaribb24', 'libaribcaption'],
  ...['dca', 'truehd', 'mlp', 'mp1', 'mp1float', 'pcm_bluray', 'pcm_dvd'],
  ...['bmp', 'gif', 'webp'],
];

/** The name under which formats list a codec: all `pcm_…` are `pcm`. */
export function codecFamily(codec: string): string {
  return codec.startsWith('pcm_') && acceptedDecoders.includes(codec) ? 'pcm' : codec;
}

export function isAvFormat(id: string): id is AvFormatId {
  return id in avFormats;
}
