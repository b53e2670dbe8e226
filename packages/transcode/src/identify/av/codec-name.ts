/**
 * Names of codecs in messages, by the names of ffmpeg's codecs and, if they differ, of its decoders. Other codecs appear with
 * ffmpeg's name.
 */
const videoCodecs: Readonly<Record<string, string>> = {
  h264: 'H.264',
  hevc: 'HEVC (H.265)',
  av1: 'AV1',
  vp6: 'VP6',
  vp6f: 'VP6',
  vp8: 'VP8',
  vp9: 'VP9',
  mpeg1video: 'MPEG-1',
  mpeg2video: 'MPEG-2',
  mpeg4: 'MPEG-4 Part 2',
  msmpeg4v1: 'Microsoft MPEG-4 (DivX 3)',
  msmpeg4v2: 'Microsoft MPEG-4 (DivX 3)',
  msmpeg4: 'Microsoft MPEG-4 (DivX 3)',
  msmpeg4v3: 'Microsoft MPEG-4 (DivX 3)',
  prores: 'ProRes',
  mjpeg: 'Motion JPEG',
  png: 'PNG',
  theora: 'Theora',
  wmv1: 'Windows Media Video 7 (WMV1)',
  wmv2: 'Windows Media Video 8 (WMV2)',
  wmv3: 'Windows Media Video 9 (WMV3)',
  vc1: 'VC-1',
  h261: 'H.261',
  h263: 'H.263',
  flv: 'Sorenson Spark (FLV1)',
  flv1: 'Sorenson Spark (FLV1)',
  svq1: 'Sorenson Video',
  svq3: 'Sorenson Video 3',
  rv40: 'RealVideo',
  dvvideo: 'DV',
  dnxhd: 'DNxHD',
  cfhd: 'CineForm',
  cinepak: 'Cinepak',
  indeo5: 'Indeo 5',
  ffv1: 'FFV1',
  huffyuv: 'HuffYUV',
  ffvhuff: 'HuffYUV',
  utvideo: 'Ut Video',
  magicyuv: 'MagicYUV',
  qtrle: 'QuickTime Animation',
  dirac: 'Dirac',
  jpeg2000: 'JPEG 2000',
  rawvideo: 'uncompressed video',
  v210: 'uncompressed video',
};

const audioCodecs: Readonly<Record<string, string>> = {
  aac: 'AAC',
  aac_latm: 'AAC (LATM)',
  mp1: 'MP1',
  mp1float: 'MP1',
  mp2: 'MP2',
  mp3: 'MP3',
  opus: 'Opus',
  vorbis: 'Vorbis',
  flac: 'FLAC',
  alac: 'Apple Lossless (ALAC)',
  ac3: 'AC-3 (Dolby Digital)',
  eac3: 'E-AC-3 (Dolby Digital Plus)',
  dts: 'DTS',
  dca: 'DTS',
  truehd: 'Dolby TrueHD',
  mlp: 'MLP',
  pcm: 'PCM',
  speex: 'Speex',
  libspeex: 'Speex',
  amr_nb: 'AMR',
  amrnb: 'AMR',
  amrwb: 'AMR-WB',
  gsm: 'GSM',
  gsm_ms: 'GSM',
  wmav1: 'Windows Media Audio 1',
  wmav2: 'Windows Media Audio 2',
  wmapro: 'Windows Media Audio Professional',
  cook: 'RealAudio',
  wavpack: 'WavPack',
  tta: 'True Audio (TTA)',
  ape: "Monkey's Audio",
  adpcm_ms: 'ADPCM',
  adpcm_ima_wav: 'ADPCM',
  adpcm_ima_qt: 'ADPCM',
};

export function codecName(codec: string): string {
  if (codec === 'unknown') return 'an unknown codec';
  return videoCodecs[codec] ?? audioCodecs[codec] ?? codec;
}

/** The kind of a codec; null if it has no name here. */
export function codecKind(codec: string): 'video' | 'audio' | null {
  if (codec in videoCodecs) return 'video';
  return codec in audioCodecs ? 'audio' : null;
}
