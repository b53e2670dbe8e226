import { join } from 'node:path';
import { RenderError } from '../../errors.ts';
import { copyArgv, ladderArgv, type Picture } from '../../ffmpeg/argv/ladder.ts';
import { sourceInput } from '../../ffmpeg/argv/source-input.ts';
import { inputOptions } from '../../ffmpeg/input.ts';
import { ProgramError } from '../../ffmpeg/run.ts';
import { demuxers } from '../../formats-av.ts';
import type { AudioTrack, Ratio, VideoTrack } from '../../identified.ts';
import { playedAudio } from '../../plan.ts';
import { everyFrames } from './keyframes.ts';
import { type CopyVerdict, judgeAudioCopy, judgeCopy } from './keyframes-copy.ts';
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

/** What the renditions of a source are put together from: each stream is encoded, or copied, once. */
export interface Streams {
  /** Of each rung, in the plan's order. */
  videosOf(planned: PlannedHls | PlannedMp4): Mp4Track[];
  audioOf(planned: PlannedHls | PlannedMp4): Mp4Track | null;
  /** Frames that segments begin with. */
  readonly starts: readonly number[];
  readonly frameRate: Ratio | null;
  /** What was copied, what was encoded, and why. */
  notesOf(planned: PlannedHls | PlannedMp4): string[];
}

/** Copies of the source's own streams that may be used. */
interface Copies {
  readonly video: { readonly track: Mp4Track; readonly verdict: CopyVerdict } | null;
  readonly audio: Mp4Track | null;
  /** Why a sound that could have been copied by its codec was not. */
  readonly audioReason: string | null;
}

/**
 * Decodes the source once, for all streams that cannot be copied. What is `beside` is not made, but has its say in what is copied, where
 * keyframes are and by which sizes the picture is scaled down: a rendition that is made again alone has the same bytes, since
 * caches may hold pieces of the first. `onProgress`: 0 to 1.
 */
export async function makeStreams(
  context: StepContext,
  renditions: ReadonlyArray<PlannedHls | PlannedMp4>,
  beside: ReadonlyArray<PlannedHls | PlannedMp4>,
  onProgress: (fraction: number) => void,
): Promise<Streams> {
  const { source, scratch } = context;
  const { video } = source.tracks;
  const played = playedAudio(source.tracks.audio);
  const frameRate = renditions[0]?.video.frameRate ?? null;
  const all = [...renditions, ...beside];
  const target = all.find(isHls)?.preset.segment_seconds ?? defaultSegmentSeconds;
  const copies = await tryCopies(context, all, { video, played, frameRate, target });

  const isCopied = (planned: PlannedHls | PlannedMp4, { mayCopy }: Pick<Encode, 'mayCopy'>) => {
    const verdict = copies.video?.verdict;
    return mayCopy && verdict !== undefined && (isHls(planned) ? verdict.notAsSegments : verdict.notAsFile) === null;
  };
  const encodes = encodesOf(renditions, scratch, isCopied);
  const through = encodesOf(beside, scratch, isCopied);
  const cut = all.some((planned) => isHls(planned) && planned.video.rungs.some((rung) => isCopied(planned, rung)));
  const every = frameRate ? Math.max(1, Math.round((target * frameRate.num) / frameRate.den)) : 1;
  const copiedStarts = cut ? (copies.video?.verdict.starts ?? null) : null;
  const bitrates = new Set(renditions.map(({ preset }) => preset.audio_bitrate));
  const audioPath = (bitrate: number) => join(scratch, `audio-${bitrate}.mp4`);
  const encodeAudio = played !== null && copies.audio === null;
  if (encodes.length > 0 || encodeAudio) {
    const outputs = ladderArgv({
      picture: video && frameRate ? await pictureOf(context, video, frameRate) : null,
      ...{ videos: encodes, through },
      keyframes: copiedStarts ? { at: copiedStarts } : { every },
      audio: encodeAudio ? { index: played.index, sampleRate: played.sampleRate === 44_100 ? 44_100 : 48_000 } : null,
      audios: [...bitrates].map((bitrate) => ({ bitrate, path: audioPath(bitrate) })),
    });
    const argv = [...sourceInput(context.path, source), ...outputs];
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
      else context.warn('The audio track could not be decoded; the renditions are silent.');
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
    if (track === undefined) throw new Error('A stream is missing that was to be encoded.');
    return track;
  };
  const videosOf = (planned: PlannedHls | PlannedMp4) =>
    planned.video.rungs.map((rung) => trackOf(planned, encodeOf(rung, planned.preset, scratch)));
  const frames = Math.max(0, ...[...encoded.values()].map(({ samples }) => samples.count));
  return {
    videosOf,
    audioOf: ({ preset }) => copies.audio ?? audios.get(preset.audio_bitrate) ?? null,
    starts: copiedStarts ?? everyFrames(frames, every),
    frameRate,
    notesOf: (planned) => [
      ...planned.video.rungs.map((rung) => videoNote(planned, rung, copies, isCopied(planned, rung))),
      ...(played ? [audioNote(copies)] : []),
    ],
  };
}

/** What an encoder wrote; null where no frame reached it. */
async function readEncoded(path: string): Promise<Mp4Track | null> {
  try {
    const track = await readMp4Track(path);
    return track.samples.count > 0 ? track : null;
  } catch (error) {
    if (error instanceof BoxError) return null;
    throw error;
  }
}

/** Says so where the encode ended long before the source should: what follows a damaged place is often not decoded. */
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

async function tryCopies(
  context: StepContext,
  renditions: ReadonlyArray<PlannedHls | PlannedMp4>,
  source: { video: VideoTrack | null; played: AudioTrack | null; frameRate: Ratio | null; target: number },
): Promise<Copies> {
  const { video, played, frameRate, target } = source;
  const videoPath = join(context.scratch, 'copied-video.mp4');
  const audioPath = join(context.scratch, 'copied-audio.mp4');
  const tryVideo = video && renditions.some((each) => each.video.rungs.some(({ mayCopy }) => mayCopy)) ? video : null;
  const tryAudio = renditions.every((each) => each.video.audio === 'copy') ? played : null;
  const argv = copyArgv([
    ...(tryVideo ? [{ index: tryVideo.index, path: videoPath }] : []),
    ...(tryAudio ? [{ index: tryAudio.index, path: audioPath }] : []),
  ]);
  if (argv.length > 0) await context.ffmpeg([...sourceInput(context.path, context.source), ...argv]);
  const track = tryVideo ? await readMp4Track(videoPath) : null;
  const audio = tryAudio ? await readMp4Track(audioPath) : null;
  const soundVideo = track === null || (await decodesWhole(context, videoPath));
  const soundAudio = audio === null || (await decodesWhole(context, audioPath));
  if (!soundVideo || !soundAudio) {
    context.warn(
      'Parts of the file are damaged; what could be decoded of it is shown, and parts may look or sound wrong.',
    );
  }
  const audioReason = soundAudio ? audio && judgeAudioCopy(audio) : damagedReason;
  const verdict = track && frameRate ? await judgeCopy(track, frameRate, target) : null;
  return {
    video: track && verdict ? { track, verdict: soundVideo ? verdict : damagedVerdict } : null,
    audio: audioReason === null ? audio : null,
    audioReason,
  };
}

const damagedReason = 'parts of it are damaged, which a copy would hand on to every player';
const damagedVerdict: CopyVerdict = { notAsFile: damagedReason, notAsSegments: damagedReason, starts: [] };

/**
 * Whether every frame of a copied stream decodes without a complaint. An encode conceals what is damaged; a copy would deliver it
 * unseen, so it is decoded once, at a small part of what encoding costs.
 */
async function decodesWhole(context: StepContext, path: string): Promise<boolean> {
  try {
    const strict = ['-xerror', '-err_detect', 'explode'];
    await context.ffmpeg([...strict, ...inputOptions(demuxers.mp4), '-i', path, '-map', '0', '-f', 'null', '-']);
    return true;
  } catch (error) {
    if (error instanceof ProgramError && error.failure === 'exit') return false;
    throw error;
  }
}

function videoNote(
  planned: PlannedHls | PlannedMp4,
  { name, width, height, mayCopy }: Pick<Encode, 'width' | 'height' | 'mayCopy'> & { name: string },
  { video }: Copies,
  copied: boolean,
): string {
  const what = `Video ${isHls(planned) ? name : `${width} x ${height}`}`;
  if (copied) return `${what}: copied from the source, which already fits.`;
  const verdict = video?.verdict;
  const reason = mayCopy && verdict ? (isHls(planned) ? verdict.notAsSegments : verdict.notAsFile) : null;
  return `${what}: encoded${reason === null ? '' : `, though the source fits, because ${reason}`}.`;
}

function audioNote({ audio, audioReason }: Copies): string {
  if (audio) return 'Audio: copied from the source, which already fits.';
  return `Audio: encoded${audioReason === null ? '' : `, though the source fits, because ${audioReason}`}.`;
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
