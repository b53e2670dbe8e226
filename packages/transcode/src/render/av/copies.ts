import { join } from 'node:path';
import { copyArgv } from '../../ffmpeg/argv/ladder.ts';
import { fromFirstFrame, sourceInput } from '../../ffmpeg/argv/source-input.ts';
import { inputOptions } from '../../ffmpeg/input.ts';
import { ProgramError } from '../../ffmpeg/run.ts';
import { demuxers } from '../../formats-av.ts';
import type { AudioTrack, Ratio, VideoTrack } from '../../identified.ts';
import { type CopyVerdict, judgeAudioCopy, judgeCopy, neverCopied } from './keyframes-copy.ts';
import type { PlannedHls, PlannedMp4 } from './ladder.ts';
import { BoxError } from './mp4-boxes.ts';
import { type Mp4Track, readMp4Track } from './mp4-track.ts';
import type { StepContext } from './step.ts';

/** Copies of the source's own streams, as far as they may be used. */
export interface Copies {
  /** Null where none was tried. `track`: null where the verdict is against every use. */
  readonly video: { readonly track: Mp4Track | null; readonly verdict: CopyVerdict } | null;
  readonly audio: Mp4Track | null;
  /** Why a sound that could have been copied by its codec was not. */
  readonly audioReason: string | null;
}

/** For an encode of everything, though a copy passed every look at it. */
export function noCopies(): Copies {
  const reason = 'what was made of a copy of it came out wrong';
  return { video: { track: null, verdict: neverCopied(reason) }, audio: null, audioReason: reason };
}

const damagedReason = 'parts of it are damaged, which a copy would hand on to every player';

/**
 * Copies the streams that look as if they fit, and looks at what came of it. Whatever goes wrong with a copy, while it is made, read
 * or decoded, is no failure: the stream is encoded, which conceals what is damaged, and a warning says so.
 */
export async function tryCopies(
  context: StepContext,
  renditions: ReadonlyArray<PlannedHls | PlannedMp4>,
  source: { video: VideoTrack | null; played: AudioTrack | null; frameRate: Ratio | null; target: number },
): Promise<Copies> {
  const { video, played, frameRate, target } = source;
  const rungs = renditions.flatMap((each) => each.video.rungs);
  const tryVideo = video && rungs.some(({ encodedBecause }) => encodedBecause === null) ? video : null;
  const tryAudio = renditions.every((each) => each.video.audio === 'copy') ? played : null;
  const streams = [tryVideo, tryAudio].flatMap((track) => track ?? []);
  const copy = (wanted: readonly (VideoTrack | AudioTrack)[]) =>
    endsWell(() => {
      const argv = copyArgv(wanted.map(({ index }) => ({ index, path: pathOf(context, index) })));
      return context.ffmpeg([...fromFirstFrame(context.source), ...sourceInput(context.path, context.source), ...argv]);
    });
  const together = streams.length > 0 && (await copy(streams));
  const wholeCopy = async (track: VideoTrack | AudioTrack): Promise<Mp4Track | null> => {
    // What is wrong with one stream must not cost the other its copy.
    if (!together && (streams.length === 1 || !(await copy([track])))) return null;
    return wholeTrack(context, pathOf(context, track.index));
  };
  const videoTrack = tryVideo && (await wholeCopy(tryVideo));
  const audioTrack = tryAudio && (await wholeCopy(tryAudio));
  if ((tryVideo && !videoTrack) || (tryAudio && !audioTrack)) {
    context.warn(
      'Parts of the file are damaged; what could be decoded of it is shown, and parts may look or sound wrong.',
    );
  }
  const audioReason = audioTrack && tryAudio ? judgeAudioCopy(audioTrack, tryAudio.bitrate) : tryAudio && damagedReason;
  const verdict = videoTrack && frameRate ? await judgeCopy(videoTrack, frameRate, target) : neverCopied(damagedReason);
  return {
    video: tryVideo && { track: videoTrack, verdict },
    audio: audioReason === null ? audioTrack : null,
    audioReason,
  };
}

function pathOf({ scratch }: StepContext, index: number): string {
  return join(scratch, `copied-${index}.mp4`);
}

/** The track of a copy that is sound: it can be read, and every frame of it decodes. */
async function wholeTrack(context: StepContext, path: string): Promise<Mp4Track | null> {
  try {
    const track = await readMp4Track(path);
    return (await decodesWhole(context, path)) ? track : null;
  } catch (error) {
    if (error instanceof BoxError) return null;
    throw error;
  }
}

/**
 * Whether every frame of a copied stream decodes without a complaint. An encode conceals what is damaged; a copy would deliver it
 * unseen, so it is decoded once, at a small part of what encoding costs.
 */
function decodesWhole(context: StepContext, path: string): Promise<boolean> {
  const strict = ['-xerror', '-err_detect', 'explode'];
  return endsWell(() =>
    context.ffmpeg([...strict, ...inputOptions(demuxers.mp4), '-i', path, '-map', '0', '-f', 'null', '-']),
  );
}

/** Whether a program came to its end by itself and in order. Where it crashed or went past a limit, encoding may still go well. */
async function endsWell(run: () => Promise<unknown>): Promise<boolean> {
  try {
    await run();
    return true;
  } catch (error) {
    if (error instanceof ProgramError && error.failure !== 'aborted' && error.failure !== 'start') return false;
    throw error;
  }
}
