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

/** Usable copies of the source's own streams. */
export interface Copies {
  /** Null if none was tried. `track` is null if the verdict is against every use. */
  readonly video: { readonly track: Mp4Track | null; readonly verdict: CopyVerdict } | null;
  readonly audio: Mp4Track | null;
  /** Why audio was not copied although its codec would allow it. */
  readonly audioReason: string | null;
}

/** For encoding everything, after a copy passed all checks but the result was defective. */
export function noCopies(): Copies {
  const reason = 'a file made from its copy was defective';
  return { video: { track: null, verdict: neverCopied(reason) }, audio: null, audioReason: reason };
}

const damagedReason = 'parts of it are damaged, and a copy would pass the damage on to players';

/**
 * Copies the streams that seem to fit and checks the copies. If a copy cannot be made, read or decoded, the render does not fail:
 * the stream is encoded, which conceals the damage, and a warning reports it.
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
    succeeds(() => {
      const argv = copyArgv(wanted.map(({ index }) => ({ index, path: pathOf(context, index) })));
      return context.ffmpeg([...fromFirstFrame(context.source), ...sourceInput(context.path, context.source), ...argv]);
    });
  const together = streams.length > 0 && (await copy(streams));
  const wholeCopy = async (track: VideoTrack | AudioTrack): Promise<Mp4Track | null> => {
    // A defect in one stream must not prevent the copy of the other.
    if (!together && (streams.length === 1 || !(await copy([track])))) return null;
    return wholeTrack(context, pathOf(context, track.index));
  };
  const videoTrack = tryVideo && (await wholeCopy(tryVideo));
  const audioTrack = tryAudio && (await wholeCopy(tryAudio));
  if ((tryVideo && !videoTrack) || (tryAudio && !audioTrack)) {
    context.warn('Parts of the file are damaged. The decodable rest is used; parts may look or sound wrong.');
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

/** The track of an intact copy: it can be read, and every frame decodes. */
async function wholeTrack(context: StepContext, path: string): Promise<Mp4Track | null> {
  try {
    const track = await readMp4Track(path);
    return (await decodesFully(context, path)) ? track : null;
  } catch (error) {
    if (error instanceof BoxError) return null;
    throw error;
  }
}

/**
 * True if every frame of a copied stream decodes without an error. An encode conceals damage, but a copy would deliver it
 * unnoticed. So a copy is decoded once, at a small part of the cost of encoding.
 */
function decodesFully(context: StepContext, path: string): Promise<boolean> {
  const strict = ['-xerror', '-err_detect', 'explode'];
  return succeeds(() =>
    context.ffmpeg([...strict, ...inputOptions(demuxers.mp4), '-i', path, '-map', '0', '-f', 'null', '-']),
  );
}

/** True if a program exited normally. After a crash or an exceeded limit, encoding may still succeed. */
async function succeeds(run: () => Promise<unknown>): Promise<boolean> {
  try {
    await run();
    return true;
  } catch (error) {
    if (error instanceof ProgramError && error.failure !== 'aborted' && error.failure !== 'start') return false;
    throw error;
  }
}
