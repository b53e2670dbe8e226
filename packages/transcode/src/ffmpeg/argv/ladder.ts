import type { Ratio } from '../../identified.ts';
import type { Size } from '../../plan.ts';
import type { AudioShape } from './audio.ts';

/** One H.264 stream to encode. */
export interface VideoOutput {
  readonly path: string;
  readonly width: number;
  readonly height: number;
  /** Constant rate factor. */
  readonly crf: number;
  /** x264's preset. */
  readonly speed: string;
  /** The most bits that any one second may have. */
  readonly bitrate: number;
}

/** The video track of a source, and the changes that it needs before it is scaled. */
export interface Picture {
  /** Index among all streams of the file. */
  readonly index: number;
  readonly deinterlace: boolean;
  /** Has an alpha channel, so it is laid over black. */
  readonly alpha: boolean;
  /** The HDR transfer function that is mapped to BT.709. Null for standard range, or if this ffmpeg cannot map it. */
  readonly toneMap: 'pq' | 'hlg' | null;
  /** The matrix to assume if frames do not name one. */
  readonly assumedMatrix: 'bt709' | 'smpte170m' | null;
  /** The matrix of all outputs. */
  readonly matrix: 'bt709' | 'smpte170m';
  readonly frameRate: Ratio;
}

/** The track that is encoded to AAC, and its shape. */
export interface AudioSource extends AudioShape {
  /** Index among all streams of the file. */
  readonly index: number;
}

export interface AudioOutput {
  readonly path: string;
  readonly bitrate: number;
}

export interface LadderOutputs {
  readonly picture: Picture | null;
  readonly videos: readonly VideoOutput[];
  /** Further sizes between the source and the outputs. The picture is scaled through them but not encoded. */
  readonly through?: readonly Size[];
  /** Frames between keyframes, or the numbers of the frames that become keyframes. */
  readonly keyframes: { readonly every: number } | { readonly at: readonly number[] };
  readonly audio: AudioSource | null;
  readonly audios: readonly AudioOutput[];
}

/** For every output: no data that differs between runs or names the encoder, and none of the source's tags. */
export const plainOutput = [
  ...['-map_metadata', '-1', '-map_chapters', '-1'],
  ...['-fflags', '+bitexact', '-flags:v', '+bitexact', '-flags:a', '+bitexact'],
];

/**
 * Threads of x264. Their number is independent of the machine, because it changes the bytes. A ladder keeps sixteen cores busy
 * with these numbers, and two cores lose nothing. The lookahead has its own thread, which makes a few of a hundred equal runs
 * differ in some bits. Without it (`sync-lookahead=0`) all are equal, but ffmpeg 5.1 takes 29 % longer, 7.0 2 %.
 */
function encoderThreads({ width, height }: VideoOutput): number {
  const pixels = width * height;
  return pixels > 1280 * 720 ? 6 : pixels > 640 * 360 ? 4 : 2;
}

/** Arguments after the input for one run that decodes once and encodes all these outputs, each into its own MP4 file. */
export function ladderArgv({ picture, videos, through = [], keyframes, audio, audios }: LadderOutputs): string[] {
  const graph = [
    ...(picture && videos.length > 0 ? videoGraph(picture, videos, through) : []),
    ...(audio && audios.length > 0 ? [audioGraph(audio, audios.length)] : []),
  ];
  return [
    ...['-filter_complex', graph.join(';')],
    ...(picture ? videos.flatMap((video, index) => videoArgv(picture, video, index, keyframes)) : []),
    ...(audio
      ? audios.flatMap(({ path, bitrate }, index) => [
          ...['-map', `[a${index}]`, '-c:a', 'aac', '-b:a', `${bitrate}`, ...plainOutput, '-f', 'mp4', path],
        ])
      : []),
  ];
}

/**
 * Scales each size from the next larger one, which costs less than scaling every size from the source. `bitexact` and
 * `accurate_rnd` give the same pixels with all vector instructions.
 */
function videoGraph(picture: Picture, videos: readonly VideoOutput[], through: readonly Size[]): string[] {
  const encoded = videos.map(({ width, height }, index) => ({ width, height, index }));
  const passed = through.map(({ width, height }) => ({ width, height, index: null }));
  const order = [...encoded, ...passed].sort((a, b) => b.width * b.height - a.width * a.height);
  const last = order.findLastIndex(({ index }) => index !== null);
  const scaler = 'flags=bicubic+accurate_rnd+bitexact';
  const chains: string[] = [];
  let from = `[0:${picture.index}]`;
  let filters = sourceFilters(picture);
  for (const [place, { width, height, index }] of order.slice(0, last + 1).entries()) {
    const scale = [`scale=${width}:${height}:${scaler}`, 'setsar=1'];
    filters.push(...(place === 0 ? firstScale(picture, width, height, scaler) : scale));
    if (index === null) continue;
    const more = place < last;
    chains.push(`${from}${[...filters, ...(more ? ['split'] : [])].join(',')}[v${index}]${more ? `[s${place}]` : ''}`);
    from = `[s${place}]`;
    filters = [];
  }
  return chains;
}

/** ffmpeg applies the rotation itself, before all of these filters. */
function sourceFilters({ deinterlace, alpha, assumedMatrix, frameRate }: Picture): string[] {
  return [
    ...(deinterlace ? ['bwdif=mode=send_frame:parity=auto:deint=all'] : []),
    ...(assumedMatrix ? [`setparams=colorspace=${assumedMatrix}`] : []),
    ...(alpha ? ['premultiply=inplace=1'] : []),
    // Starts at 0: if the audio begins before the video, the first frame is shown until then.
    `fps=fps=${frameRate.num}/${frameRate.den}:start_time=0:round=near`,
  ];
}

function firstScale({ toneMap, matrix }: Picture, width: number, height: number, scaler: string): string[] {
  const out = `out_color_matrix=${matrix}:out_range=tv`;
  if (toneMap === null) return [`scale=${width}:${height}:${scaler}:${out}`, 'format=yuv420p', 'setsar=1'];
  return [`scale=${width}:${height}:${scaler}`, toneMapping(toneMap), 'setsar=1'];
}

/** Filters that tone mapping needs; some builds of ffmpeg lack them. */
export const toneMappingFilters = ['zscale', 'tonemap'];

/**
 * Maps high dynamic range (ITU-R BT.2100) to BT.709: to linear light with 203 cd/m² as white (ITU-R BT.2408), to the primaries
 * of BT.709, with compressed highlights. This follows the scaling because its cost grows with the pixels.
 */
function toneMapping(hdr: 'pq' | 'hlg'): string {
  const transfer = hdr === 'pq' ? 'smpte2084' : 'arib-std-b67';
  return [
    `zscale=tin=${transfer}:pin=bt2020:min=bt2020nc:t=linear:npl=203`,
    'format=gbrpf32le',
    'zscale=p=bt709',
    'tonemap=mobius:desat=0',
    'zscale=t=bt709:m=bt709:r=tv',
    'format=yuv420p',
  ].join(',');
}

function videoArgv(
  { matrix, frameRate }: Picture,
  video: VideoOutput,
  index: number,
  keyframes: LadderOutputs['keyframes'],
): string[] {
  const primaries = matrix === 'bt709' ? 'bt709' : 'smpte170m';
  return [
    ...['-map', `[v${index}]`, '-c:v', 'libx264', '-preset', video.speed, '-profile:v', 'high'],
    ...['-crf', `${video.crf}`, '-maxrate', `${video.bitrate}`, '-bufsize', `${2 * video.bitrate}`],
    ...['-flags', '+cgop', '-sc_threshold', '0', ...keyframeArgv(keyframes, frameRate)],
    ...['-threads:v', `${encoderThreads(video)}`, '-fps_mode', 'passthrough'],
    ...['-colorspace', matrix, '-color_primaries', primaries, '-color_trc', primaries, '-color_range', 'tv'],
    // Removes the message with x264's name and settings.
    ...['-bsf:v', 'filter_units=remove_types=6'],
    ...plainOutput,
    ...['-f', 'mp4', video.path],
  ];
}

function keyframeArgv(keyframes: LadderOutputs['keyframes'], { num, den }: Ratio): string[] {
  if ('every' in keyframes) return ['-g', `${keyframes.every}`, '-keyint_min', `${keyframes.every}`];
  // Slightly before each frame: ffmpeg takes the first frame at or after a time. Some versions keep the time in microseconds,
  // others in frames, so it may be rounded.
  const times = keyframes.at.map((frame) => (Math.max(0, frame - 0.25) * den) / num);
  const forced = times.map((time) => time.toFixed(6)).join(',');
  return ['-g', `${noOtherKeyframes}`, '-force_key_frames', forced, '-forced-idr', '1'];
}

/** x264's value for no keyframes except the forced ones (X264_KEYINT_MAX_INFINITE). */
const noOtherKeyframes = 2 ** 30;

/** Adds silence for gaps, and before audio that begins after the video, so the first samples are those of time 0. */
function audioGraph({ index, sampleRate, channels }: AudioSource, outputs: number): string {
  const filters = [
    `aresample=${sampleRate}:async=1:first_pts=0`,
    `aformat=sample_fmts=fltp:channel_layouts=${channels === 1 ? 'mono' : 'stereo'}`,
    ...(outputs > 1 ? [`asplit=${outputs}`] : []),
  ];
  const pads = Array.from({ length: outputs }, (_, output) => `[a${output}]`);
  return `[0:${index}]${filters.join(',')}${pads.join('')}`;
}

/** Arguments after the input for one run that copies streams unchanged, each into its own MP4 file. */
export function copyArgv(streams: ReadonlyArray<{ index: number; path: string }>): string[] {
  return streams.flatMap(({ index, path }) => ['-map', `0:${index}`, '-c', 'copy', ...plainOutput, '-f', 'mp4', path]);
}
