import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { RenderError } from '../../errors.ts';
import { candidateArgs, type FramePosition, parseFrameTimes } from '../../ffmpeg/argv/frames.ts';
import { ProgramError } from '../../ffmpeg/run.ts';
import type { RawPixels } from '../../heic.ts';
import type { VideoTrack } from '../../identified.ts';
import { fitInside } from '../../plan.ts';
import { scoreFrame } from './poster-score.ts';
import type { StepContext } from './step.ts';

/** The representative frame of a video. */
export interface PosterFrame {
  readonly position: FramePosition;
  /** Presentation time of the frame; for a keyframe, before the requested time. */
  readonly timeMs: number;
}

/** The first positions to try: past titles and fades, well before the ending. */
const fractions = [0.1, 0.25, 0.4, 0.55, 0.7, 0.03];
/** The positions to try if none of those is good. */
const lastFractions = [...fractions, 0.85, 0.95];
const scoredSize = { width: 96, height: 96 };
const channels = 3;
/** Limits the decoders that are open at once: each keeps a dozen frames. */
const pixelsAtOnce = 16_000_000;

/**
 * Finds a frame that is not black, white or part of a fade. Keyframes come first, because they cost almost nothing. Often none
 * is good, as in a short clip whose only keyframe is black. Then the exact frames at these times and the first of the file
 * follow. The best of all is used, so a black video has a poster, too.
 * @throws RenderError `corrupt_media` if no frame can be decoded
 */
export async function findPosterFrame(context: StepContext): Promise<PosterFrame> {
  const durationMs = context.source.durationMs ?? 0;
  const positionsAt = (seek: FramePosition['seek'], shares: readonly number[]) =>
    [...new Set(shares.map((fraction) => Math.floor(durationMs * fraction)))].map((atMs) => ({ atMs, seek }));
  const byKeyframe = await scoreFrames(context, positionsAt('keyframe', fractions));
  const best = bestOf(byKeyframe);
  if (best?.good) return best;
  const all = [
    ...byKeyframe,
    ...(await scoreFrames(context, [...positionsAt('exact', lastFractions), { atMs: 0, seek: 'first' as const }])),
  ];
  const found = bestOf(all);
  if (found === null) throw undecodableError();
  return found;
}

type Candidate = PosterFrame & ReturnType<typeof scoreFrame>;

function bestOf(candidates: readonly Candidate[]): Candidate | null {
  let best: Candidate | null = null;
  for (const candidate of candidates) if (best === null || candidate.score > best.score) best = candidate;
  return best;
}

async function scoreFrames(context: StepContext, positions: readonly FramePosition[]): Promise<Candidate[]> {
  const video = videoTrack(context);
  const most = Math.max(1, Math.floor(pixelsAtOnce / (video.codedWidth * video.codedHeight)));
  const found: Candidate[] = [];
  for (let at = 0; at < positions.length; at += most) {
    found.push(...(await scoreInOneRun(context, video, positions.slice(at, at + most))));
  }
  return found;
}

async function scoreInOneRun(
  context: StepContext,
  video: VideoTrack,
  positions: readonly FramePosition[],
): Promise<Candidate[]> {
  const { path, source, scratch } = context;
  const size = fitInside(source, scoredSize);
  const wanted = positions.map((position, index) => ({
    ...position,
    file: join(scratch, `${position.seek}-${position.atMs}-${index}.raw`),
  }));
  let output: Buffer;
  try {
    output = await context.ffmpeg(candidateArgs(path, source, size, wanted));
  } catch (error) {
    // A damaged position must not prevent the others, so each is tried alone.
    if (!(error instanceof ProgramError) || error.failure !== 'exit') throw error;
    if (positions.length === 1) return [];
    const found: Candidate[] = [];
    for (const position of positions) found.push(...(await scoreInOneRun(context, video, [position])));
    return found;
  }
  const times = parseFrameTimes(output.toString('latin1'), wanted);
  const found: Candidate[] = [];
  for (const [index, { file, ...position }] of wanted.entries()) {
    const data = await readFile(file).catch(() => Buffer.alloc(0));
    const timeMs = times.get(index);
    if (data.length !== size.width * size.height * channels || timeMs === undefined) continue;
    const pixels: RawPixels = { data, ...size, channels };
    found.push({ position, timeMs, ...scoreFrame(pixels) });
  }
  return found;
}

/** The source is at fault: its headers are readable, but none of its frames is. */
export function undecodableError(): RenderError {
  return new RenderError('corrupt_media', 'no frame of the video can be decoded');
}

/** The video track, for steps that are planned only for sources with video. */
export function videoTrack({ source }: StepContext): VideoTrack {
  if (source.tracks.video === null) throw new RangeError('The source has no video.');
  return source.tracks.video;
}
