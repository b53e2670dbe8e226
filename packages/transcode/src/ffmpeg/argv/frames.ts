import type { IdentifiedFile, Tracks, VideoTrack } from '../../identified.ts';
import type { Size } from '../../plan.ts';
import { sourceOptions } from '../input.ts';

type VideoSource = Pick<IdentifiedFile, 'format' | 'colorSpace'> & { readonly tracks: Pick<Tracks, 'video'> };

/** Where in a video a frame is looked for. Milliseconds of the presentation. */
export interface FramePosition {
  readonly atMs: number;
  /**
   * `keyframe`: the last one at or before the time, which is found and decoded at once; `exact`: the frame shown at that time,
   * for which everything since the keyframe is decoded; `first`: the first of the file, without a seek.
   */
  readonly seek: 'keyframe' | 'exact' | 'first';
}

/**
 * Bytes a pixel of the raw frames of {@link stretchArgs}: RGB, or RGBA where the source has transparency. All others are RGB, over
 * black: a poster and a storyboard look as the video does, which is laid over black.
 */
export function stretchChannels({ hasAlpha }: VideoTrack): 3 | 4 {
  return hasAlpha ? 4 : 3;
}

/**
 * Small pictures of several places, one a file, in one run; standard output names the exact time of each (see
 * {@link parseFrameTimes}). A place that gives no frame leaves an empty file, or none.
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
      ...['-vf', `${still(source, size)},${tellTime(index)}`, '-frames:v', '1'],
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

/** The frames of a stretch, evenly spaced, as raw pixels on standard output. */
export function stretchArgs(
  path: string,
  source: VideoSource,
  size: Size,
  stretch: { readonly startMs: number; readonly frames: number; readonly frameRate: number },
): string[] {
  const { startMs, frames, frameRate } = stretch;
  const stretched = still(source, size, stretchChannels(videoOf(source)));
  return [
    ...(startMs > 0 ? ['-ss', seconds(startMs)] : []),
    ...decoderOptions(source),
    ...sourceOptions(source),
    ...['-i', path, '-map', `0:${videoOf(source).index}`],
    ...['-vf', `fps=${frameRate}:start_time=0:eof_action=pass,${stretched}`, '-frames:v', String(frames)],
    ...rawTo('pipe:1'),
  ];
}

/** What is decoded of a video: all of its frames, those that others refer to, or keyframes alone. */
export type Decoded = 'all' | 'referred' | 'keyframes';

/**
 * A frame of each of `tiles` stretches of equal length, as raw pixels in a file, in one pass over the video: the one in its
 * middle, or of keyframes the last in it, where there is one. Standard output names the time of each frame that was decoded (see
 * {@link parseTimes}).
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
  // Everything is moved half a stretch ahead. Frame n of the output is then, by `up`, the last that begins in or before the
  // middle of its stretch; by `near` the last that begins before its end. The last keyframe is held, or it would count as
  // shown for one frame only.
  const spread = [
    tellTime(0),
    // Before `setpts`, which from ffmpeg 7 on takes away the frame rate that this counts by.
    ...(keyframes ? [`tpad=stop_mode=clone:stop_duration=${(2 * apartS).toFixed(3)}`] : []),
    // AVI counts in whole frames, of which half a stretch need not be a multiple.
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

/** Frames at equal distances from a time on. */
export interface FrameSeries {
  readonly atMs: number;
  readonly apartMs: number;
  readonly frames: number;
}

/**
 * Several series in one run, each as raw pixels in a file of its own: everything from the keyframe before its first frame to its last
 * one is decoded. A series that reaches past the end has fewer frames. Standard output names times: {@link parseFrameTimes} has that
 * of the first of each, which is late where the container was not sought well.
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
      ...['-vf', `${tellTime(index)},settb=AVTB,fps=1000/${apartMs}:start_time=0:round=up,${still(source, size, 3)}`],
      ...['-frames:v', String(frames), ...rawTo(file)],
    ]),
  ];
}

/** Times in milliseconds of the frames that {@link tilesArgs} had decoded. */
export function parseTimes(output: string): number[] {
  return [...output.matchAll(/pts_time:(-?[\d.]+)/g)].map(([, time]) => Number(time) * 1_000);
}

/** Times in milliseconds, by the index of the place, of the first frame that each place of {@link candidateArgs} gave. */
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
 * ffmpeg's own VP8 and VP9 decoders drop the second, hidden stream that is the alpha; libvpx's read it. The number of threads
 * is fixed, so that what a damaged stream decodes to does not depend on the machine.
 */
function decoderOptions(source: VideoSource): string[] {
  const { codec, hasAlpha } = videoOf(source);
  const withAlpha: Readonly<Record<string, string>> = { vp8: 'libvpx', vp9: 'libvpx-vp9' };
  const decoder = hasAlpha ? withAlpha[codec] : undefined;
  return ['-threads', '2', ...(decoder === undefined ? [] : ['-c:v', decoder])];
}

/**
 * The frame as displayed, at this size, as 8-bit sRGB. ffmpeg itself turns what is to be rotated, before these filters; the
 * size is that after the sample aspect ratio, so scaling to it squares the samples.
 */
function still(source: VideoSource, { width, height }: Size, channels: 3 | 4 = 3): string {
  const { hdr, interlaced, codedHeight, hasAlpha } = videoOf(source);
  const format = channels === 4 ? 'rgba' : 'rgb24';
  // What carries no matrix is BT.601 up to standard definition and BT.709 above, as players guess it.
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
 * High dynamic range (ITU-R BT.2100) to what any screen shows: to linear light with 203 cd/m² as white (ITU-R BT.2408), to the
 * primaries of sRGB, highlights compressed. After scaling, because it costs by the pixel.
 */
function toneMap(hdr: 'pq' | 'hlg'): string {
  const transfer = hdr === 'pq' ? 'smpte2084' : 'arib-std-b67';
  return [
    // Said, not relied upon: files that tag the transfer alone are common, and zscale refuses what is unknown.
    `setparams=color_primaries=bt2020:color_trc=${transfer}:colorspace=bt2020nc`,
    'zscale=t=linear:npl=203',
    'format=gbrpf32le',
    'zscale=p=bt709',
    'tonemap=mobius:desat=0',
    'zscale=t=iec61966-2-1:m=gbr:r=full',
    'format=gbrp',
  ].join(',');
}

/** Has the time of each frame printed, with the number of the place that it belongs to. */
function tellTime(index: number): string {
  return `metadata=mode=add:key=place:value=${index},metadata=mode=print:file=-`;
}

function rawTo(file: string): string[] {
  // Frames as they come: a constant rate would drop those from before the time that was sought.
  return ['-fps_mode', 'passthrough', '-f', 'rawvideo', file];
}

function seconds(ms: number): string {
  return (ms / 1_000).toFixed(3);
}

function videoOf({ tracks }: VideoSource): VideoTrack {
  if (tracks.video === null) throw new RangeError('The source has no video.');
  return tracks.video;
}
