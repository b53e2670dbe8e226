import type { IdentifiedFile, Tracks, VideoTrack } from '../../identified.ts';
import type { Size } from '../../plan.ts';
import { sourceOptions } from '../input.ts';

type VideoSource = Pick<IdentifiedFile, 'format' | 'colorSpace'> & { readonly tracks: Pick<Tracks, 'video'> };

/** A position in a video to take a frame from. Milliseconds of the presentation. */
export interface FramePosition {
  readonly atMs: number;
  /**
   * `keyframe`: the last keyframe at or before the time, which is found and decoded quickly. `exact`: the frame shown at that
   * time; everything since its keyframe is decoded. `first`: the first frame of the file, without a seek.
   */
  readonly seek: 'keyframe' | 'exact' | 'first';
}

/**
 * Bytes per pixel of the raw frames of {@link spanArgs}: RGB, or RGBA if the source has transparency. All other frames are
 * RGB over black, because posters and storyboards must look like the video, which is laid over black.
 */
export function spanChannels({ hasAlpha }: VideoTrack): 3 | 4 {
  return hasAlpha ? 4 : 3;
}

/**
 * Small images of several positions, one file each, in one run. Standard output has the exact time of each (see
 * {@link parseFrameTimes}). A position without a frame leaves an empty file, or none.
 */
export function candidateArgs(
  path: string,
  source: VideoSource,
  size: Size,
  wanted: ReadonlyArray<FramePosition & { readonly file: string }>,
): string[] {
  return [
    ...wanted.flatMap((position) => positionedInput(path, source, position)),
    ...wanted.flatMap(({ file }, index) => [
      ...['-map', `${index}:${videoOf(source).index}`],
      ...['-vf', `${still(source, size)},${printTime(index)}`, '-frames:v', '1'],
      ...rawTo(file),
    ]),
  ];
}

/** One frame as raw pixels on standard output. */
export function stillArgs(path: string, source: VideoSource, size: Size, position: FramePosition): string[] {
  return [
    ...positionedInput(path, source, position),
    ...['-map', `0:${videoOf(source).index}`, '-vf', still(source, size), '-frames:v', '1'],
    ...rawTo('pipe:1'),
  ];
}

/** Evenly spaced frames of a time span, as raw pixels on standard output. */
export function spanArgs(
  path: string,
  source: VideoSource,
  size: Size,
  span: { readonly startMs: number; readonly frames: number; readonly frameRate: number },
): string[] {
  const { startMs, frames, frameRate } = span;
  const filters = still(source, size, spanChannels(videoOf(source)));
  return [
    ...(startMs > 0 ? ['-ss', seconds(startMs)] : []),
    ...decoderOptions(source),
    ...sourceOptions(source),
    ...['-i', path, '-map', `0:${videoOf(source).index}`],
    ...['-vf', `fps=${frameRate}:start_time=0:eof_action=pass,${filters}`, '-frames:v', String(frames)],
    ...rawTo('pipe:1'),
  ];
}

/** The frames of a video that are decoded: all, those that others refer to, or only keyframes. */
export type Decoded = 'all' | 'referred' | 'keyframes';

/**
 * One frame from each of `tiles` spans of equal length, as raw pixels in a file, in one pass over the video. It is the frame in
 * the middle of the span, or for keyframes the last one in it, if there is one. Standard output has the time of each decoded
 * frame (see {@link parseTimes}).
 */
export function tilesArgs(
  path: string,
  source: VideoSource,
  size: Size,
  board: { readonly tiles: number; readonly durationMs: number; readonly decoded: Decoded; readonly file: string },
): string[] {
  const { tiles, durationMs, decoded, file } = board;
  const apartS = durationMs / tiles / 1_000;
  const keyframes = decoded === 'keyframes';
  // All times are moved earlier by half a span. With `up`, output frame n is then the last that begins in or before the middle of
  // its span. With `near`, it is the last that begins before the span's end. The last keyframe is held, because otherwise it
  // would count as shown for only one frame.
  const spread = [
    printTime(0),
    // Before `setpts`, which from ffmpeg 7 on removes the frame rate that this filter needs.
    ...(keyframes ? [`tpad=stop_mode=clone:stop_duration=${(2 * apartS).toFixed(3)}`] : []),
    // AVI counts in whole frames, and half a span need not be a multiple of those.
    'settb=AVTB',
    `setpts=PTS-${(apartS / 2).toFixed(6)}/TB`,
    `fps=${tiles * 1_000}/${durationMs}:start_time=0:round=${keyframes ? 'near' : 'up'}`,
  ].join(',');
  return [
    ...(keyframes ? ['-skip_frame', 'nokey', '-discard', 'nokey'] : []),
    ...(decoded === 'referred' ? ['-skip_frame', 'noref'] : []),
    ...decoderOptions(source),
    ...sourceOptions(source),
    ...['-i', path, '-map', `0:${videoOf(source).index}`],
    ...['-vf', `${spread},${still(source, size)}`, '-frames:v', String(tiles)],
    ...rawTo(file),
  ];
}

/** Frames at equal distances, starting at a time. */
export interface FrameSeries {
  readonly atMs: number;
  readonly apartMs: number;
  readonly frames: number;
}

/**
 * Several series in one run, each as raw pixels in its own file. Everything from the keyframe before a series to its last frame
 * is decoded. A series that reaches past the end has fewer frames. Standard output has times; {@link parseFrameTimes} returns
 * that of the first frame of each. It is late if the seek in the container was imprecise.
 */
export function seriesArgs(
  path: string,
  source: VideoSource,
  size: Size,
  wanted: ReadonlyArray<FrameSeries & { readonly file: string }>,
): string[] {
  return [
    ...wanted.flatMap(({ atMs }) => positionedInput(path, source, { atMs, seek: 'exact' })),
    ...wanted.flatMap(({ apartMs, frames, file }, index) => [
      ...['-map', `${index}:${videoOf(source).index}`],
      ...['-vf', `${printTime(index)},settb=AVTB,fps=1000/${apartMs}:start_time=0:round=up,${still(source, size, 3)}`],
      ...['-frames:v', String(frames), ...rawTo(file)],
    ]),
  ];
}

/** Times in milliseconds of the frames that {@link tilesArgs} decoded. */
export function parseTimes(output: string): number[] {
  return [...output.matchAll(/pts_time:(-?[\d.]+)/g)].map(([, time]) => Number(time) * 1_000);
}

/** Times in milliseconds of the first frame of each position of {@link candidateArgs}, by the position's index. */
export function parseFrameTimes(output: string, wanted: readonly FramePosition[]): Map<number, number> {
  const times = new Map<number, number>();
  for (const [, time, index] of output.matchAll(/pts_time:(-?[\d.]+)\s+place=(\d+)/g)) {
    const position = wanted[Number(index)];
    if (position === undefined || times.has(Number(index))) continue;
    const seekMs = position.seek === 'first' ? 0 : position.atMs;
    times.set(Number(index), Math.max(0, Math.round(seekMs + Number(time) * 1_000)));
  }
  return times;
}

function positionedInput(path: string, source: VideoSource, { atMs, seek }: FramePosition): string[] {
  return [
    ...(seek === 'first' ? [] : ['-ss', seconds(atMs)]),
    ...(seek === 'keyframe' ? ['-noaccurate_seek', '-skip_frame', 'nokey'] : []),
    ...decoderOptions(source),
    ...sourceOptions(source),
    ...['-i', path],
  ];
}

/**
 * ffmpeg's own VP8 and VP9 decoders drop the second, hidden stream with the alpha channel; libvpx's decoders read it. The
 * number of threads is fixed, so that a damaged stream decodes to the same pixels on every machine.
 */
function decoderOptions(source: VideoSource): string[] {
  const { codec, hasAlpha } = videoOf(source);
  const withAlpha: Readonly<Record<string, string>> = { vp8: 'libvpx', vp9: 'libvpx-vp9' };
  const decoder = hasAlpha ? withAlpha[codec] : undefined;
  return ['-threads', '2', ...(decoder === undefined ? [] : ['-c:v', decoder])];
}

/**
 * The frame as displayed, at this size, as 8-bit sRGB. ffmpeg applies the rotation itself, before these filters. The size is
 * the one after the sample aspect ratio, so scaling to it makes the pixels square.
 */
function still(source: VideoSource, { width, height }: Size, channels: 3 | 4 = 3): string {
  const { hdr, interlaced, codedHeight, hasAlpha } = videoOf(source);
  const format = channels === 4 ? 'rgba' : 'rgb24';
  // Without a matrix, BT.601 is assumed up to standard definition and BT.709 above, as players do.
  const matrix = /^(bt|smpte|fcc|rgb|gbr|ycgco|ictcp)/.test(source.colorSpace) || codedHeight < 720 ? 'auto' : 'bt709';
  const scale = `scale=${width}:${height}:flags=bicubic+accurate_rnd+full_chroma_int+full_chroma_inp+bitexact`;
  return [
    ...(interlaced ? ['yadif=deint=interlaced'] : []),
    ...(hasAlpha && channels === 3 ? ['premultiply=inplace=1'] : []),
    ...(hdr === null ? [`${scale}:in_color_matrix=${matrix}`] : [scale, toneMap(hdr)]),
    `format=${format}`,
  ].join(',');
}

/**
 * Maps high dynamic range (ITU-R BT.2100) to sRGB: to linear light with 203 cd/m² as white (ITU-R BT.2408), to the primaries of
 * sRGB, with compressed highlights. This follows the scaling because its cost grows with the pixels.
 */
function toneMap(hdr: 'pq' | 'hlg'): string {
  const transfer = hdr === 'pq' ? 'smpte2084' : 'arib-std-b67';
  return [
    // Set explicitly: many files tag only the transfer function, and zscale refuses unknown values.
    `setparams=color_primaries=bt2020:color_trc=${transfer}:colorspace=bt2020nc`,
    'zscale=t=linear:npl=203',
    'format=gbrpf32le',
    'zscale=p=bt709',
    'tonemap=mobius:desat=0',
    'zscale=t=iec61966-2-1:m=gbr:r=full',
    'format=gbrp',
  ].join(',');
}

/** Prints the time of each frame, with the index of its position. */
function printTime(index: number): string {
  return `metadata=mode=add:key=place:value=${index},metadata=mode=print:file=-`;
}

function rawTo(file: string): string[] {
  // Passes frames unchanged: a constant rate would drop those before the seek time.
  return ['-fps_mode', 'passthrough', '-f', 'rawvideo', file];
}

function seconds(ms: number): string {
  return (ms / 1_000).toFixed(3);
}

function videoOf({ tracks }: VideoSource): VideoTrack {
  if (tracks.video === null) throw new RangeError('The source has no video.');
  return tracks.video;
}
