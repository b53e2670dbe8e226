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
  /** Bits per second that a stretch of one second must not exceed. */
  readonly bitrate: number;
}

/** What the picture of a source needs, before it is scaled. */
export interface Picture {
  /** Index among all streams of the file. */
  readonly index: number;
  readonly deinterlace: boolean;
  /** Has an alpha channel: it is laid over black. */
  readonly alpha: boolean;
  /** Transfer function of high dynamic range that is mapped to BT.709; null for all else, and where this ffmpeg cannot. */
  readonly toneMap: 'pq' | 'hlg' | null;
  /** Where frames do not say which matrix they have: the one to assume. */
  readonly assumedMatrix: 'bt709' | 'smpte170m' | null;
  /** That all outputs have. */
  readonly matrix: 'bt709' | 'smpte170m';
  readonly frameRate: Ratio;
}

/** The track that is encoded to AAC, and the shape that it gets. */
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
  /** Further sizes that the picture passes on its way down, though nothing is encoded of them. */
  readonly through?: readonly Size[];
  /** Frames between keyframes, or the frames at which keyframes are. */
  readonly keyframes: { readonly every: number } | { readonly at: readonly number[] };
  readonly audio: AudioSource | null;
  readonly audios: readonly AudioOutput[];
}

/** What every output has: nothing in it that changes from run to run or names who made it, and nothing of the source's tags. */
export const plainOutput = [
  ...['-map_metadata', '-1', '-map_chapters', '-1'],
  ...['-fflags', '+bitexact', '-flags:v', '+bitexact', '-flags:a', '+bitexact'],
];

/**
 * Threads of x264, whatever the machine has: their number changes the bytes. Enough that a ladder keeps sixteen cores busy,
 * few enough that two cores lose nothing. Its lookahead runs in a thread of its own, by which a few of a hundred equal runs differ in some
 * bits; without (`sync-lookahead=0`) they are equal, and ffmpeg 5.1 takes 29 % longer, 7.0 2 %.
 */
function encoderThreads({ width, height }: VideoOutput): number {
  const pixels = width * height;
  return pixels > 1280 * 720 ? 6 : pixels > 640 * 360 ? 4 : 2;
}

/** Everything after the input for one run that decodes once and encodes all these outputs, each into an MP4 file of its own. */
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
 * Each size is scaled from the next larger one, which costs less than scaling all from the source. `bitexact` and
 * `accurate_rnd`: the same pixels whatever vector instructions the processor has.
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

/** Rotation comes before all of these: ffmpeg applies it by itself. */
function sourceFilters({ deinterlace, alpha, assumedMatrix, frameRate }: Picture): string[] {
  return [
    ...(deinterlace ? ['bwdif=mode=send_frame:parity=auto:deint=all'] : []),
    ...(assumedMatrix ? [`setparams=colorspace=${assumedMatrix}`] : []),
    ...(alpha ? ['premultiply=inplace=1'] : []),
    // From 0 on: where the audio begins before the video, its first frame is shown until then.
    `fps=fps=${frameRate.num}/${frameRate.den}:start_time=0:round=near`,
  ];
}

function firstScale({ toneMap, matrix }: Picture, width: number, height: number, scaler: string): string[] {
  const out = `out_color_matrix=${matrix}:out_range=tv`;
  if (toneMap === null) return [`scale=${width}:${height}:${scaler}:${out}`, 'format=yuv420p', 'setsar=1'];
  return [`scale=${width}:${height}:${scaler}`, toneMapping(toneMap), 'setsar=1'];
}

/** Filters that tone mapping needs, and that not every ffmpeg has. */
export const toneMappingFilters = ['zscale', 'tonemap'];

/**
 * High dynamic range (ITU-R BT.2100) to BT.709: to linear light with 203 cd/m² as white (ITU-R BT.2408), to the primaries of
 * BT.709, highlights compressed. After scaling, because it costs by the pixel.
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
    // Without the message in which x264 names itself and its settings.
    ...['-bsf:v', 'filter_units=remove_types=6'],
    ...plainOutput,
    ...['-f', 'mp4', video.path],
  ];
}

function keyframeArgv(keyframes: LadderOutputs['keyframes'], { num, den }: Ratio): string[] {
  if ('every' in keyframes) return ['-g', `${keyframes.every}`, '-keyint_min', `${keyframes.every}`];
  // A little before each frame: ffmpeg takes the first one at or after a time, which it keeps in microseconds or in frames,
  // rounded, as the version has it.
  const times = keyframes.at.map((frame) => (Math.max(0, frame - 0.25) * den) / num);
  const forced = times.map((time) => time.toFixed(6)).join(',');
  return ['-g', `${noOtherKeyframes}`, '-force_key_frames', forced, '-forced-idr', '1'];
}

/** x264's word for keyframes at no distance of its own (X264_KEYINT_MAX_INFINITE): none but those that are forced. */
const noOtherKeyframes = 2 ** 30;

/** Silence where the audio begins after the video or has gaps; the first samples are those of time 0. */
function audioGraph({ index, sampleRate, channels }: AudioSource, outputs: number): string {
  const filters = [
    `aresample=${sampleRate}:async=1:first_pts=0`,
    `aformat=sample_fmts=fltp:channel_layouts=${channels === 1 ? 'mono' : 'stereo'}`,
    ...(outputs > 1 ? [`asplit=${outputs}`] : []),
  ];
  const pads = Array.from({ length: outputs }, (_, output) => `[a${output}]`);
  return `[0:${index}]${filters.join(',')}${pads.join('')}`;
}

/** Everything after the input for one run that copies streams as they are, each into an MP4 file of its own. */
export function copyArgv(streams: ReadonlyArray<{ index: number; path: string }>): string[] {
  return streams.flatMap(({ index, path }) => ['-map', `0:${index}`, '-c', 'copy', ...plainOutput, '-f', 'mp4', path]);
}
