import { join } from 'node:path';
import { RenderError } from '../../errors.ts';
import { audioShape, bitrateFor } from '../../ffmpeg/argv/audio.ts';
import { ladderArgv, type Picture } from '../../ffmpeg/argv/ladder.ts';
import { fromFirstFrame, sourceInput } from '../../ffmpeg/argv/source-input.ts';
import type { Ratio, VideoTrack } from '../../identified.ts';
import { type PlannedRung, playedAudio } from '../../plan.ts';
import { type Copies, noCopies, tryCopies } from './copies.ts';
import { everyFrames } from './keyframes.ts';
import type { CopyVerdict } from './keyframes-copy.ts';
import {
  defaultSegmentSeconds,
  type Encode,
  encodeOf,
  encodesOf,
  isHls,
  type PlannedHls,
  type PlannedMp4,
} from './ladder.ts';
import { BoxError } from './mp4-boxes.ts';
import { type Mp4Track, readMp4Track, timeAt } from './mp4-track.ts';
import type { StepContext } from './step.ts';
import { canToneMap } from './tone-mapping.ts';

/** The streams that renditions are made from; each is encoded or copied once. */
export interface Streams {
  /** The track of each rung, in the plan's order. */
  videosOf(planned: PlannedHls | PlannedMp4): Mp4Track[];
  audioOf(planned: PlannedHls | PlannedMp4): Mp4Track | null;
  /** First frames of the segments. */
  readonly starts: readonly number[];
  readonly frameRate: Ratio | null;
  /** True if one of its streams was copied. */
  hasCopies(planned: PlannedHls | PlannedMp4): boolean;
  /** Notes on what was copied, what was encoded, and why. */
  notesOf(planned: PlannedHls | PlannedMp4): string[];
}

/**
 * Decodes the source once for all streams that cannot be copied. Renditions in `beside` are not made, but they influence which
 * streams are copied, where keyframes are, and through which sizes the picture is scaled. So a rendition that is made again
 * alone matches its first files, of which caches may hold pieces. `onProgress`: 0 to 1. `encodeAll`: nothing is copied, even if
 * it would fit.
 */
export async function makeStreams(
  context: StepContext,
  renditions: ReadonlyArray<PlannedHls | PlannedMp4>,
  beside: ReadonlyArray<PlannedHls | PlannedMp4>,
  { onProgress, encodeAll = false }: { onProgress: (fraction: number) => void; encodeAll?: boolean },
): Promise<Streams> {
  const { source, scratch } = context;
  const { video } = source.tracks;
  const played = playedAudio(source.tracks.audio);
  const frameRate = renditions[0]?.video.frameRate ?? null;
  const all = [...renditions, ...beside];
  const target = all.find(isHls)?.preset.segment_seconds ?? defaultSegmentSeconds;
  const copies = encodeAll ? noCopies() : await tryCopies(context, all, { video, played, frameRate, target });

  const isCopied = (planned: PlannedHls | PlannedMp4, { encodedBecause }: Pick<Encode, 'encodedBecause'>) => {
    const verdict = copies.video?.verdict;
    return encodedBecause === null && verdict !== undefined && reasonAgainst(planned, verdict) === null;
  };
  const encodes = encodesOf(renditions, scratch, isCopied);
  const through = encodesOf(beside, scratch, isCopied);
  const cut = all.some((planned) => isHls(planned) && planned.video.rungs.some((rung) => isCopied(planned, rung)));
  const every = frameRate ? Math.max(1, Math.round((target * frameRate.num) / frameRate.den)) : 1;
  const copied = cut ? (copies.video?.verdict ?? null) : null;
  const bitrates = new Set(renditions.map(({ preset }) => preset.audio_bitrate));
  const audioPath = (bitrate: number) => join(scratch, `audio-${bitrate}.mp4`);
  const encodeAudio = played !== null && copies.audio === null;
  if (encodes.length > 0 || encodeAudio) {
    const outputs = ladderArgv({
      picture: video && frameRate ? await pictureOf(context, video, frameRate) : null,
      ...{ videos: encodes, through },
      keyframes: copied ? { at: copied.keyframes } : { every },
      audio: encodeAudio ? { index: played.index, ...audioShape(played) } : null,
      audios: [...bitrates].map((bitrate) => ({
        bitrate: played ? bitrateFor(audioShape(played), bitrate) : bitrate,
        path: audioPath(bitrate),
      })),
    });
    const argv = [...fromFirstFrame(source), ...sourceInput(context.path, source), ...outputs];
    const durationMs = source.durationMs ?? 0;
    await context.ffmpeg(argv, {
      onProgress: ({ timeMs }) => durationMs > 0 && onProgress(Math.min(1, timeMs / durationMs)),
    });
  }

  const audios = new Map<number, Mp4Track>();
  if (encodeAudio) {
    for (const bitrate of bitrates) {
      const track = await readEncoded(audioPath(bitrate));
      if (track) audios.set(bitrate, track);
      else context.warn('The audio track could not be decoded; the renditions have no audio.');
    }
  }
  const encoded = new Map<string, Mp4Track>();
  for (const { path } of encodes) {
    const track = await readEncoded(path);
    if (track === null) throw new RenderError('corrupt_media', 'No frame of the video could be decoded.');
    encoded.set(path, track);
  }
  warnIfShort(context, encoded.values());
  const trackOf = (planned: PlannedHls | PlannedMp4, encode: Encode) => {
    const track = isCopied(planned, encode) ? copies.video?.track : encoded.get(encode.path);
    if (!track) throw new Error('An encoded stream is missing.');
    return track;
  };
  const videosOf = (planned: PlannedHls | PlannedMp4) =>
    planned.video.rungs.map((rung) => trackOf(planned, encodeOf(rung, planned.preset, scratch)));
  const frames = Math.max(0, ...[...encoded.values()].map(({ samples }) => samples.count));
  return {
    videosOf,
    audioOf: ({ preset }) => copies.audio ?? audios.get(preset.audio_bitrate) ?? null,
    starts: copied?.starts ?? everyFrames(frames, every),
    frameRate,
    hasCopies: (planned) => copies.audio !== null || planned.video.rungs.some((rung) => isCopied(planned, rung)),
    notesOf: (planned) => [
      ...planned.video.rungs.map((rung) => videoNote(planned, rung, copies)),
      ...(played ? [audioNote(planned, copies)] : []),
    ],
  };
}

/** The track that an encoder wrote, or null if it received no frame. */
async function readEncoded(path: string): Promise<Mp4Track | null> {
  try {
    const track = await readMp4Track(path);
    return track.samples.count > 0 ? track : null;
  } catch (error) {
    if (error instanceof BoxError) return null;
    throw error;
  }
}

/** Warns if the encode is much shorter than the source, because decoding often stops after a damaged place. */
function warnIfShort(context: StepContext, encoded: Iterable<Mp4Track>): void {
  const expected = (context.source.tracks.video?.durationMs ?? context.source.durationMs ?? 0) / 1_000;
  for (const track of encoded) {
    const seconds = timeAt(track, track.samples.count);
    if (seconds > Math.min(expected - 1, 0.98 * expected)) continue;
    context.warn(
      `Only ${seconds.toFixed(1)} s of ${expected.toFixed(1)} s could be decoded: the file seems to be damaged or cut off.`,
    );
    return;
  }
}

function reasonAgainst(planned: PlannedHls | PlannedMp4, { notAsSegments, notAsFile }: CopyVerdict): string | null {
  return isHls(planned) ? notAsSegments : notAsFile;
}

function videoNote(planned: PlannedHls | PlannedMp4, rung: PlannedRung, { video }: Copies): string {
  const { name, width, height, encodedBecause } = rung;
  const verdict = video && reasonAgainst(planned, video.verdict);
  return `Video ${isHls(planned) ? name : `${width} x ${height}`}: ${copyNote(encodedBecause, verdict)}`;
}

function audioNote({ video }: PlannedHls | PlannedMp4, { audioReason }: Copies): string {
  return `Audio: ${copyNote(video.audioBecause, audioReason)}`;
}

/** `because`: why the source does not fit. `though`: why it is encoded although it fits. */
function copyNote(because: string | null, though: string | null): string {
  if (because !== null) return `encoded, because ${because}.`;
  return though === null
    ? 'copied from the source, which already fits.'
    : `encoded, though the source fits, because ${though}.`;
}

async function pictureOf(context: StepContext, video: VideoTrack, frameRate: Ratio): Promise<Picture> {
  const { source } = context;
  const highDefinition = source.height >= 720 || source.width >= 1280;
  const known = /^(bt709|smpte170m|bt470bg|bt2020)/.test(source.colorSpace);
  return {
    index: video.index,
    deinterlace: video.interlaced,
    alpha: video.hasAlpha,
    toneMap: video.hdr !== null && (await canToneMap(context)) ? video.hdr : null,
    assumedMatrix: known ? null : highDefinition ? 'bt709' : 'smpte170m',
    matrix: highDefinition || /^bt(709|2020)/.test(source.colorSpace) || video.hdr !== null ? 'bt709' : 'smpte170m',
    frameRate,
  };
}
