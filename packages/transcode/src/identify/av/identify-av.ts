import { MediaRejectedError } from '../../errors.ts';
import { type Programs, ProgramsMissingError } from '../../ffmpeg/programs.ts';
import { ProgramError } from '../../ffmpeg/run.ts';
import { type AvContainer, type AvFormatId, avFormats, codecFamily, demuxers } from '../../formats-av.ts';
import type { AudioTrack, IdentifiedFields, Tracks, VideoTrack } from '../../identified.ts';
import type { EngineLimits } from '../../limits.ts';
import { playedAudio } from '../../plan.ts';
import type { Bytes } from '../bytes.ts';
import { codecKind, codecName } from './codec-name.ts';
import { frameTiming } from './frame-timing.ts';
import type { Wholeness } from './movie-boxes.ts';
import { createProber, type Probe, type ProbedStream, type Prober, seconds } from './probe.ts';
import {
  audioTrack,
  bitDepthOf,
  codecOf,
  codecsOf,
  displayedSize,
  displayMatrix,
  lengthOf,
  ratio,
  remainingBitrate,
  type Streams,
  sortStreams,
  videoTrack,
} from './tracks.ts';
import { checkWholeness } from './wholeness.ts';

export interface AvSource {
  readonly path: string;
  readonly bytes: Bytes;
  readonly container: AvContainer;
}

/** A film has some dozen tracks: audio and subtitles in many languages. */
const maxStreams = 64;

/**
 * Identifies a video or audio file whose container is known from its first bytes. ffprobe reads the content with only that
 * container's demuxer. Our own rules decide what is accepted, and ffmpeg decodes a small part.
 * @throws MediaRejectedError
 */
export async function identifyAv(
  { path, bytes, container }: AvSource,
  limits: EngineLimits,
  programs: Programs,
): Promise<IdentifiedFields> {
  const whole = checkWholeness(container, bytes);
  const prober = createProber(path, demuxers[container], programs, limits);
  const unread = defaultFormat(container);
  const read = await prober.probe().catch((error: unknown) => {
    throw rejectionOf(error, whole.endsEarly ? 'is cut off, and the rest cannot be read' : 'is damaged', unread);
  });
  const probe = container === 'matroska' || container === 'webm' ? withTimesFromStart(read) : read;
  const streams = sortStreams(probe.streams);
  const format = formatOf(container, streams);
  const name = avFormats[format].names;
  checkStreams(probe, name, whole);
  const warnings: string[] = [];
  const { video, audio } = chooseTracks(streams, probe, format, warnings);
  const tracks: Tracks = {
    video: video?.track ?? null,
    audio,
    coverArt: streams.coverArt,
    bitrate: remainingBitrate({ ...probe, streams: [] }),
  };
  checkFrameSize(tracks, limits);

  try {
    const timed = video ? { ...tracks, video: await withTiming(prober, video.track, probe) } : tracks;
    await checkDecoding(prober, timed, name, warnings);
    const endsEarly = whole.endsEarly || (await tailIsMissing(prober, container, probe, timed));
    const durationMs = await durationOf(prober, probe, timed, endsEarly);
    checkDuration(durationMs, limits, name);
    if (endsEarly) warnings.push('The file ends early; the missing part cannot be played.');
    const main = probe.streams.find(({ index }) => index === (timed.video ?? timed.audio[0])?.index);
    return describe(format, bytes.size, { tracks: timed, durationMs, warnings, main });
  } catch (error) {
    throw rejectionOf(error, 'cannot be read', format);
  }
}

/** A failed program becomes a refusal of the file. An error in our own code stays as it is. */
function rejectionOf(error: unknown, what: string, id: AvFormatId): unknown {
  const name = avFormats[id].names;
  if (error instanceof ProgramsMissingError) return error;
  if (!(error instanceof ProgramError)) return error;
  if (error.failure === 'start') return error;
  if (['wall', 'cpu', 'stall'].includes(error.failure)) {
    return new MediaRejectedError(
      'identify_timeout',
      'Reading the file took too long, so it was stopped. The file may be damaged or malicious; export it again.',
      { cause: error },
    );
  }
  if (error.failure === 'memory' || error.failure === 'output') {
    return new MediaRejectedError(
      'unsafe_media',
      `Reading the ${name} took more memory than a normal file needs. Export it again.`,
      { cause: error },
    );
  }
  const unknownCodec = error.run.stderrTail.join('\n').match(/Codec \((\w+)\) not on whitelist/)?.[1];
  if (unknownCodec !== undefined) {
    return codecRejection(unknownCodec, codecKind(unknownCodec), { id, allTracksRead: false, cause: error });
  }
  return new MediaRejectedError('corrupt_media', `The ${name} ${what}. Export or copy it again and retry.`, {
    cause: error,
  });
}

function checkStreams({ streams }: Probe, name: string, whole: Wholeness): void {
  if (streams.length > maxStreams) {
    throw new MediaRejectedError(
      'unsafe_media',
      `The ${name} has ${streams.length} tracks; at most ${maxStreams} are accepted. Export it with fewer.`,
    );
  }
  if (whole.encrypted || streams.some(isEncrypted)) {
    throw new MediaRejectedError(
      'unsupported_codec',
      `The ${name} is encrypted (copy-protected), so it cannot be played. Send an unprotected copy.`,
    );
  }
}

/** In Matroska, encrypted tracks have the id of a key. Apple's older scheme names codecs `drm?`. */
function isEncrypted({ codec_tag_string = '', tags }: ProbedStream): boolean {
  if (codec_tag_string === 'drms' || codec_tag_string === 'drmi') return true;
  return Object.keys(tags).some((key) => key.toLowerCase() === 'enc_key_id');
}

function defaultFormat(container: AvContainer): AvFormatId {
  return container === 'matroska' ? 'mkv' : container;
}

function formatOf(container: AvContainer, { video, audio }: Streams): AvFormatId {
  const moves = video.length > 0;
  switch (container) {
    case 'mp4':
      return moves ? 'mp4' : 'm4a';
    case 'webm':
      return moves ? 'webm' : 'weba';
    case 'matroska':
      return moves ? 'mkv' : 'mka';
    case 'ogg':
      return moves ? 'ogv' : audio.every((stream) => codecOf(stream) === 'opus') ? 'opus' : 'ogg';
    default:
      return container;
  }
}

/** Selects the accepted tracks, adds a warning for each that is left out, and refuses a file without playable tracks. */
function chooseTracks(streams: Streams, probe: Probe, format: AvFormatId, warnings: string[]) {
  const { codecs, names } = avFormats[format];
  const accepted = (kind: 'video' | 'audio') => (stream: ProbedStream) =>
    (codecs[kind] ?? []).includes(codecFamily(codecOf(stream)));
  const pick = (kind: 'video' | 'audio') => {
    const all = streams[kind];
    const good = all.filter(accepted(kind));
    const other = all.find((stream) => !accepted(kind)(stream));
    if (other !== undefined && good.length === 0) {
      throw codecRejection(codecOf(other), kind, { id: format, allTracksRead: true });
    }
    if (other !== undefined) {
      warnings.push(
        `Another ${kind} track is left out because its codec, ${codecName(codecOf(other))}, is not accepted.`,
      );
    }
    return good;
  };
  if (streams.video.length === 0 && streams.audio.length === 0) {
    const art = streams.coverArt ? ', only a cover image' : '';
    throw new MediaRejectedError(
      'corrupt_media',
      `The ${names} contains nothing playable: no video and no audio${art}.`,
    );
  }
  const [shown, ...further] = pick('video');
  if (further.length > 0) warnings.push('The file has several video tracks; only the first is used.');
  const audio = pick('audio').flatMap((stream) => {
    const track = audioTrack(stream);
    if (track === null) warnings.push('An audio track without a sample rate or channels is left out.');
    return track ?? [];
  });
  if (shown === undefined) {
    if (audio.length === 0) throw undecodableError(names);
    return { video: null, audio: withBitrate(audio, probe) };
  }
  const track = videoTrack(shown, remainingBitrate(probe));
  if (track === null) {
    throw new MediaRejectedError(
      'corrupt_media',
      `The ${names} has no picture size; it is damaged. Export or copy it again and retry.`,
    );
  }
  const { mirrored, skewed } = displayMatrix(shown);
  if (mirrored) warnings.push('The video is marked as mirrored; it is shown as it was recorded.');
  if (skewed) warnings.push('The video is marked to be rotated by an odd angle; the nearest quarter turn is used.');
  return { video: { track }, audio };
}

/** If a file has only one track, that track has all of its bits, unless it has its own bit rate. */
function withBitrate(audio: readonly AudioTrack[], probe: Probe): AudioTrack[] {
  return audio.map((track) =>
    audio.length === 1 ? { ...track, bitrate: track.bitrate ?? remainingBitrate(probe) } : track,
  );
}

/**
 * The refusal of a codec, with its name and the accepted codecs of its kind. `kind` is null if the kind of the track is unknown.
 * `allTracksRead` is false if reading stopped at this codec: the file may then have another format of its container.
 */
function codecRejection(
  codec: string,
  kind: 'video' | 'audio' | null,
  { id, allTracksRead, cause }: { id: AvFormatId; allTracksRead: boolean; cause?: unknown },
): MediaRejectedError {
  const shown = !allTracksRead && kind === 'video' ? videoFormat(id) : id;
  const { names } = avFormats[shown];
  const accepted = kind === null ? acceptedInAll(id) : listed(codecsIn(id, kind));
  const instead =
    accepted === '' && kind !== null
      ? `Files of this format must not contain ${kind}.`
      : `Accepted ${kind === null ? '' : `${kind} `}codecs: ${accepted}. Export it with one of these.`;
  return new MediaRejectedError(
    'unsupported_codec',
    `This ${names} contains ${kind ?? 'a track'} in ${codecName(codec)}, which is not accepted. ${instead}`,
    { cause },
  );
}

/** Accepted codecs of a kind in all formats of a container, because people think of an Ogg file as one format. */
function codecsIn(id: AvFormatId, kind: 'video' | 'audio'): string[] {
  const { container } = avFormats[id];
  const formats = Object.values(avFormats).filter((format) => format.container === container);
  return [...new Set(formats.flatMap(({ codecs }) => codecs[kind] ?? []))];
}

function acceptedInAll(id: AvFormatId): string {
  const video = codecsIn(id, 'video');
  const audio = `for audio, ${listed(codecsIn(id, 'audio'))}`;
  return video.length === 0 ? audio : `for video, ${listed(video)}; ${audio}`;
}

function listed(codecs: readonly string[]): string {
  const names = codecs.map(codecName);
  return names.length < 2 ? names.join() : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;
}

/** The video format of a container, if it has one. */
function videoFormat(id: AvFormatId): AvFormatId {
  const { container } = avFormats[id];
  const found = Object.entries(avFormats).find(
    ([, format]) => format.container === container && format.kind === 'video',
  );
  return found === undefined ? id : (found[0] as AvFormatId);
}

function undecodableError(name: string): MediaRejectedError {
  return new MediaRejectedError(
    'corrupt_media',
    `No track of the ${name} can be decoded; it is damaged. Export or copy it again and retry.`,
  );
}

function checkFrameSize({ video }: Tracks, limits: EngineLimits): void {
  if (video === null) return;
  const { codedWidth, codedHeight } = video;
  const shown = displayedSize(video);
  if (Math.max(codedWidth * codedHeight, shown.width * shown.height) > limits.maxPixels) {
    const most = (limits.maxPixels / 1e6).toFixed(limits.maxPixels < 1e7 ? 1 : 0);
    throw new MediaRejectedError(
      'too_many_pixels',
      `The video has frames of ${codedWidth} x ${codedHeight} pixels; at most ${most} million are accepted. Make it smaller.`,
    );
  }
}

function checkDuration(durationMs: number, limits: EngineLimits, name: string): void {
  if (durationMs > limits.maxDurationS * 1_000) {
    throw new MediaRejectedError(
      'too_long',
      `The ${name} lasts ${Math.round(durationMs / 1_000)} s; at most ${limits.maxDurationS} s are accepted. Cut it into parts.`,
    );
  }
}

async function withTiming(prober: Prober, track: VideoTrack, probe: Probe): Promise<VideoTrack> {
  const stream = probe.streams.find(({ index }) => index === track.index);
  return { ...track, ...(await frameTiming(prober, track, ratio(stream?.r_frame_rate))) };
}

/** Decodes one frame of the video and a little of the played audio. A file whose beginning does not decode is refused. */
async function checkDecoding(
  prober: Prober,
  { video, audio }: Tracks,
  name: string,
  warnings: string[],
): Promise<void> {
  const played = playedAudio(audio);
  const decoded = await prober.decode({
    ...(video ? { video: video.index } : {}),
    ...(played ? { audio: played.index } : {}),
  });
  if (!decoded.video && !decoded.audio) throw undecodableError(name);
  if (video && !decoded.video) {
    throw new MediaRejectedError(
      'corrupt_media',
      `No frame of the ${name} can be decoded; it is damaged. Export or copy it again and retry.`,
    );
  }
  if (played && !decoded.audio) warnings.push('No audio could be decoded; that track may be empty or damaged.');
}

/** FLAC and MP3 have their duration in the header but no mark at the end, so the packets near the end are read. */
async function tailIsMissing(prober: Prober, container: AvContainer, probe: Probe, tracks: Tracks): Promise<boolean> {
  const durationS = seconds(probe.format.duration);
  const [track] = tracks.audio;
  if ((container !== 'flac' && container !== 'mp3') || track === undefined || !durationS || isGuessed(probe))
    return false;
  const fromS = durationS * 0.95;
  let last = 0;
  await prober.packets(
    track.index,
    ({ pts, duration }) => {
      last = Math.max(last, (pts ?? 0) + (duration ?? 0));
    },
    { fromS, most: 4 },
  );
  return last < fromS - Math.max(0.5, durationS * 0.02);
}

function isGuessed({ messages }: Probe): boolean {
  return messages.some((line) => line.includes('Estimating duration from bitrate'));
}

/**
 * In Matroska, durations are end times. In other containers, and during playback, time starts at the first frame. For a track,
 * programs write one or the other; a track lasts at most until the end of the file.
 */
function withTimesFromStart(probe: Probe): Probe {
  const end = seconds(probe.format.duration);
  const start = seconds(probe.format.start_time);
  if (end === null || start === null || start <= 0 || end <= start) return probe;
  const streams = probe.streams.map((stream) => {
    const most = end - (seconds(stream.start_time) ?? start);
    return (lengthOf(stream) ?? 0) > most ? { ...stream, duration: String(most) } : stream;
  });
  return { ...probe, streams, format: { ...probe.format, duration: String(end - start) } };
}

/** The duration in the container, else that of the longest track, else the end of the last packet. */
async function durationOf(prober: Prober, probe: Probe, tracks: Tracks, endsEarly: boolean): Promise<number> {
  const guessed = isGuessed(probe);
  const stated = seconds(probe.format.duration);
  if (stated !== null && stated > 0 && !guessed && !endsEarly) return Math.round(stated * 1_000);
  const longest = Math.max(0, ...[tracks.video, ...tracks.audio].map((track) => track?.durationMs ?? 0));
  if (longest > 0 && !guessed && !endsEarly) return longest;
  const main = tracks.video ?? tracks.audio[0];
  if (main === undefined) return 0;
  let start = Number.POSITIVE_INFINITY;
  let end = 0;
  let clock = 0;
  await prober.packets(main.index, ({ pts, dts, duration }) => {
    const at = pts ?? dts ?? clock;
    clock = at + (duration ?? 0);
    start = Math.min(start, at);
    end = Math.max(end, clock);
  });
  return Number.isFinite(start) ? Math.round((end - Math.max(0, start)) * 1_000) : 0;
}

interface Findings {
  tracks: Tracks;
  durationMs: number;
  warnings: string[];
  main: ProbedStream | undefined;
}

function describe(id: AvFormatId, size: number, { tracks, durationMs, warnings, main }: Findings): IdentifiedFields {
  const { video } = tracks;
  const format = avFormats[id];
  return {
    kind: video ? 'video' : 'audio',
    format: id,
    contentType: format.contentTypes[0],
    extension: format.extensions[0],
    bytes: size,
    ...(video ? displayedSize(video) : { width: 0, height: 0 }),
    durationMs,
    frames: video?.frames ?? 1,
    codecs: codecsOf(tracks),
    hasAlpha: video?.hasAlpha ?? false,
    orientation: 1,
    colorSpace: video ? (main?.color_space ?? 'unknown') : 'none',
    bitDepth: main ? bitDepthOf(main) : 8,
    icc: false,
    tracks,
    warnings,
  };
}
