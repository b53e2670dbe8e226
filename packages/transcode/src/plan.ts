import type { AudioTrack, IdentifiedFile, Ratio, VideoTrack } from './identified.ts';
import type { MediaKind } from './media-kind.ts';
import type { PicturePreset } from './presets/picture.ts';
import { type Preset, presetRevision } from './presets/presets.ts';
import type { HlsPreset, Mp4Preset } from './presets/video.ts';

/** A size in pixels. */
export interface Size {
  width: number;
  height: number;
}

/** One rung of a ladder, with its final size. */
export interface PlannedRung extends Size {
  readonly name: string;
  /** The most bits that any one second may have. */
  readonly bitrate: number;
  /**
   * Why the source's video cannot be copied to this rung, as the clause that follows "because", such as `it is not H.264`. If null,
   * it is copied, provided that its keyframes allow segments of about equal length. Only reading the file can show that.
   */
  readonly encodedBecause: string | null;
}

/** How the video and audio of a source become an MP4 file or a ladder. */
export interface PlannedVideo {
  /** Largest first; an MP4 file has one. Empty for a source without video. */
  readonly rungs: readonly PlannedRung[];
  /** Constant frame rate of everything that is encoded: the source's rate, but at most 60. Null without video. */
  readonly frameRate: Ratio | null;
  /** How the played audio track is made; `none` if the source has no audio. */
  readonly audio: 'copy' | 'encode' | 'none';
  /**
   * Reason for encoding the audio. Null if there is no audio, or if it is copied. Reading the track may still show a reason to
   * encode it.
   */
  readonly audioBecause: string | null;
}

/** One preset applied to one source: what it will become, or why it is skipped. */
export interface PlannedRendition {
  readonly preset: Preset;
  readonly revision: string;
  readonly name: string;
  readonly extension: string;
  readonly contentType: string;
  /** `not_applicable`: the preset is for other kinds of media. */
  readonly state: 'make' | 'skip' | 'not_applicable';
  /** A sentence: why it is skipped, or what it shows of the source. */
  readonly reason: string;
  /** The size of the rendition in pixels, even if it is skipped. For a ladder: the size of its largest rung. 0 if it has no size. */
  readonly width: number;
  readonly height: number;
  /** For `hls` and `mp4` that are made; null for everything else. */
  readonly video: PlannedVideo | null;
}

/** A rendition of a picture preset. */
export type PlannedPicture = PlannedRendition & { readonly preset: PicturePreset };

export function isPicture(planned: PlannedRendition): planned is PlannedPicture {
  return planned.preset.type === 'picture';
}

type Decision = Pick<PlannedRendition, 'state' | 'reason'> & Partial<PlannedRendition>;

/**
 * Decides what each preset makes of the source. Pure: the same source and presets always give the same plan. Plans can
 * therefore be explained and compared without rendering.
 */
export function planRenditions(source: IdentifiedFile, presets: readonly Preset[]): PlannedRendition[] {
  return presets.map((preset) => ({
    preset,
    revision: presetRevision(preset),
    name: preset.name,
    extension: preset.extension,
    contentType: preset.content_type,
    ...{ width: 0, height: 0, video: null },
    ...decide(source, preset),
  }));
}

/**
 * The largest size within the box that keeps the source's shape and does not enlarge it. At least 1 x 1; 0 x 0 if the source has no
 * size. A null edge of the box sets no limit.
 */
export function fitInside(source: Size, box: { width: number | null; height: number | null }): Size {
  const { width, height } = source;
  if (width < 1 || height < 1) return { width: 0, height: 0 };
  const scale = Math.min(1, (box.width ?? width) / width, (box.height ?? height) / height);
  return { width: Math.max(1, Math.round(width * scale)), height: Math.max(1, Math.round(height * scale)) };
}

/**
 * Like {@link fitInside}, for video: the box is turned for portrait sources, and both edges are even, as 4:2:0 needs. An odd edge
 * is rounded down if rounding up would exceed the source. The result is at least 2 x 2, even for a source 1 pixel wide.
 */
export function fitVideo(source: Size, box: { width: number | null; height: number | null }): Size {
  const size = fitInside(source, turnBox(source, box));
  const even = (edge: number, max: number) => Math.max(2, Math.min(2 * Math.round(edge / 2), 2 * Math.floor(max / 2)));
  return { width: even(size.width, source.width), height: even(size.height, source.height) };
}

/** Turns a box for landscape video if the source is portrait. */
function turnBox<B extends { width: number | null; height: number | null }>(source: Size, box: B): B {
  const upright = source.height > source.width;
  const wide = (box.width ?? Infinity) > (box.height ?? Infinity);
  return upright && wide ? { ...box, width: box.height, height: box.width } : box;
}

function decide(source: IdentifiedFile, preset: Preset): Decision {
  const kinds: readonly MediaKind[] = preset.source_kinds;
  if (!kinds.includes(source.kind)) {
    return { state: 'not_applicable', reason: `The preset is for ${kinds.join(' and ')}; this is ${source.kind}.` };
  }
  switch (preset.type) {
    case 'picture':
      return decidePicture(source, preset);
    case 'hls':
    case 'mp4':
      return decideVideo(source, preset);
    case 'preview':
    case 'storyboard':
      if (!source.tracks?.video) return noTrack(source, 'video');
      return { state: 'make', reason: 'Made from frames of the video.', ...fitVideo(source, preset) };
    case 'audio':
    case 'waveform':
      if (!source.tracks?.audio.length) return noTrack(source, 'audio');
      return { state: 'make', reason: 'Made from the audio.', width: preset.width ?? 0, height: preset.height ?? 0 };
  }
}

function noTrack(source: IdentifiedFile, kind: 'video' | 'audio' | 'video or audio'): Decision {
  return { state: 'skip', reason: `This ${source.kind} has no ${kind} track.` };
}

function decidePicture(source: IdentifiedFile, preset: PicturePreset): Decision {
  if (source.kind === 'audio') return { state: 'skip', reason: 'Audio has no picture; a waveform preset can show it.' };
  const size = fitInside(source, preset);
  const largest = maxEncodedEdge[preset.container];
  if (Math.max(size.width, size.height) > largest) {
    return { state: 'skip', reason: `${preset.container} allows at most ${largest} pixels on each side.`, ...size };
  }
  const isAnimated = source.kind === 'image' && source.frames > 1;
  // If an AVIF and a WebP share a name, clients that accept both get the AVIF. A still AVIF would freeze the animation for
  // nearly everybody. Only clients that accept neither get the JPEG, so a JPEG of the first frame is made.
  if (isAnimated && preset.container === 'avif') {
    return {
      state: 'skip',
      reason: 'The source is an animation, and AVIF renditions are still images; WebP keeps the animation.',
      ...size,
    };
  }
  const shrunk = size.width < source.width || size.height < source.height;
  const sizeReason = shrunk
    ? `Fitted into the preset's box.`
    : `Kept at the source's size: renditions are never enlarged.`;
  const contentNote =
    source.kind === 'video'
      ? 'A frame of the video that is not black. '
      : isAnimated && preset.container !== 'webp'
        ? 'First frame of the animation. '
        : isAnimated
          ? `All ${source.frames} frames. `
          : '';
  return { state: 'make', reason: contentNote + sizeReason, ...size };
}

/** Longest edge in pixels that each container allows. WebP (VP8) stores it in 14 bits, JPEG in 16. AVIF's limit is libaom's. */
const maxEncodedEdge: Record<PicturePreset['container'], number> = {
  webp: 16_383,
  jpeg: 65_535,
  avif: 16_384,
  png: 65_535,
};

/** The highest frame rate that is kept. Hardly anybody sees more, and it costs bytes and processor time. */
const maxFrameRate = 60;

function decideVideo(source: IdentifiedFile, preset: HlsPreset | Mp4Preset): Decision {
  const { tracks } = source;
  if (!tracks?.video && !tracks?.audio.length) return noTrack(source, 'video or audio');
  const audioTrack = playedAudio(tracks.audio);
  const audioBecause = audioTrack && audioEncodeReason(audioTrack);
  const audio = audioTrack === null ? 'none' : audioBecause === null ? 'copy' : 'encode';
  const { video } = tracks;
  if (video === null) {
    const reason = 'Only audio: the source has no video.';
    return { state: 'make', reason, video: { rungs: [], frameRate: null, audio, audioBecause } };
  }
  const rungs = preset.type === 'hls' ? ladderFor(source, video, preset) : [onlyRung(source, video, preset)];
  const frameRate = constantRate(video);
  const rate = rateReason(video, frameRate);
  const names = rungs.map(({ name, width, height }) => `${name} (${width} x ${height})`).join(', ');
  const largest = rungs[0] ?? { width: 0, height: 0 };
  return {
    state: 'make',
    reason: `${preset.type === 'hls' ? `At or below the source's size: ${names}` : `At ${largest.width} x ${largest.height}`}.${rate}`,
    width: largest.width,
    height: largest.height,
    video: { rungs, frameRate, audio, audioBecause },
  };
}

function ladderFor(source: IdentifiedFile, video: VideoTrack, preset: HlsPreset): PlannedRung[] {
  const largestFirst = [...preset.rungs].sort((a, b) => b.width * b.height - a.width * a.height);
  const fitting = largestFirst.filter((rung) => {
    const box = turnBox(source, rung);
    return Math.min(box.width / source.width, box.height / source.height) <= 1;
  });
  // A source below the smallest rung gets that rung at its own size.
  const chosen = fitting.length > 0 ? fitting : largestFirst.slice(-1);
  return chosen.map(({ name, bitrate, ...box }) => planRung(source, video, { name, bitrate }, fitVideo(source, box)));
}

function onlyRung(source: IdentifiedFile, video: VideoTrack, preset: Mp4Preset): PlannedRung {
  return planRung(source, video, preset, fitVideo(source, preset));
}

function planRung(
  source: IdentifiedFile,
  video: VideoTrack,
  { name, bitrate }: { name: string; bitrate: number },
  size: Size,
): PlannedRung {
  const sameSize = size.width === source.width && size.height === source.height;
  const bitrateReason = () =>
    video.bitrate === null
      ? 'its bit rate is unknown'
      : video.bitrate > bitrate
        ? `its ${megabits(video.bitrate)} are more than the ${megabits(bitrate)} of this rung`
        : null;
  const encodedBecause = sameSize
    ? (videoEncodeReason(video) ?? bitrateReason())
    : `the source has another size, ${source.width} x ${source.height}`;
  return { name, bitrate, ...size, encodedBecause };
}

function megabits(bitrate: number): string {
  return `${Number((bitrate / 1e6).toPrecision(3))} Mb/s`;
}

/**
 * Reason why this track must be encoded again, or null if it can be copied. A track is copied only if every browser and phone can
 * play it as it is.
 */
function videoEncodeReason(video: VideoTrack): string | null {
  const { codec, pixelFormat, profile, level, sampleAspect, rotation, interlaced, variableFrameRate, hdr } = video;
  if (codec !== 'h264') return 'it is not H.264';
  if (pixelFormat !== 'yuv420p' && pixelFormat !== 'yuvj420p') return `its pixels are ${pixelFormat}, not 8-bit 4:2:0`;
  if (!/^(constrained baseline|baseline|main|high)$/i.test(profile ?? '')) {
    return profile === null ? 'its profile is unknown' : `its profile, ${profile}, does not play everywhere`;
  }
  if (level === null) return 'its level is unknown';
  if (level > 42) return `its level, ${(level / 10).toFixed(1)}, is above 4.2`;
  if (rotation !== 0) return 'it has to be rotated';
  if (sampleAspect.num !== sampleAspect.den) return 'its pixels are not square';
  if (interlaced) return 'it is interlaced';
  if (variableFrameRate) return 'its frame rate varies';
  return hdr === null ? null : 'it is HDR';
}

/** The track that plays if nobody chooses another: the default track, else the first. */
export function playedAudio<T extends { isDefault: boolean }>(tracks: readonly T[]): T | null {
  return tracks.find(({ isDefault }) => isDefault) ?? tracks[0] ?? null;
}

/**
 * Reason why this track must be encoded again, or null if it can be copied. A track is copied only if every browser and phone can
 * play it as it is.
 */
function audioEncodeReason({ codec, profile, channels, sampleRate, bitrate }: AudioTrack): string | null {
  if (codec !== 'aac') return 'it is not AAC';
  if (profile !== null && profile !== 'LC') return `it is ${profile}, not AAC-LC`;
  if (channels > 2) return `it has ${channels} channels`;
  if (sampleRate > 48_000) return `its sample rate, ${sampleRate} Hz, is above 48000`;
  // If the container states no bit rate, it is measured on the copied track. If it is too high, the track is encoded.
  return bitrate === null ? null : bitrateEncodeReason(bitrate);
}

/** The clause after "because" if AAC of this bit rate must be encoded again, or null if it can be copied. */
export function bitrateEncodeReason(bitrate: number): string | null {
  return bitrate > 192_000 ? `its ${Math.round(bitrate / 1_000)} kb/s are more than 192` : null;
}

function rateReason({ variableFrameRate }: VideoTrack, { num, den }: Ratio): string {
  const rate = Number((num / den).toFixed(3));
  return variableFrameRate
    ? ` The source's frame rate varies; the rendition has a constant ${rate} frames per second, the rate of the source while its picture changes.`
    : '';
}

function constantRate({ frameRate }: VideoTrack): Ratio {
  const fps = frameRate.num / frameRate.den;
  return fps > maxFrameRate ? { num: maxFrameRate, den: 1 } : frameRate;
}
