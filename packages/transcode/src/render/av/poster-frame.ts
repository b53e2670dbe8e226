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

/** The frame that stands for a video. */
export interface PosterFrame {
  readonly position: FramePosition;
  /** When it is shown, which for a keyframe is before the time that was asked for. */
  readonly timeMs: number;
}

/** The first places to look: past titles and fades, well before the end gives the story away. */
const fractions = [0.1, 0.25, 0.4, 0.55, 0.7, 0.03];
/** Where none of those will do: whatever there is. */
const lastFractions = [...fractions, 0.85, 0.95];
const lookedAt = { width: 96, height: 96 };
const channels = 3;
/** Decoders that are open at once are held to about as many pixels: each keeps a dozen frames. */
const pixelsAtOnce = 16_000_000;

/**
 * Finds a frame that is not black, not white and not a fade: keyframes first, which cost next to nothing; where none of those
 * will do, as in a short clip whose only keyframe is black, the very frames at the same times, and the first of the file. Of
 * what there is the best is taken, so that a black video has a poster as well.
 * @throws RenderError `corrupt_media` where no frame can be decoded
 */
export async function findPosterFrame(context: StepContext): Promise<PosterFrame> {
  const durationMs = context.source.durationMs ?? 0;
  const places = (seek: FramePosition['seek'], where: readonly number[]) =>
    [...new Set(where.map((fraction) => Math.floor(durationMs * fraction)))].map((atMs) => ({ atMs, seek }));
  const byKeyframe = await look(context, places('keyframe', fractions));
  const best = bestOf(byKeyframe);
  if (best?.good) return best;
  const all = [
    ...byKeyframe,
    ...(await look(context, [...places('exact', lastFractions), { atMs: 0, seek: 'first' as const }])),
  ];
  const found = bestOf(all);
  if (found === null) throw nothingDecodes();
  return found;
}

type Candidate = PosterFrame & ReturnType<typeof scoreFrame>;

function bestOf(candidates: readonly Candidate[]): Candidate | null {
  let best: Candidate | null = null;
  for (const candidate of candidates) if (best === null || candidate.score > best.score) best = candidate;
  return best;
}

async function look(context: StepContext, positions: readonly FramePosition[]): Promise<Candidate[]> {
  const video = videoTrack(context);
  const most = Math.max(1, Math.floor(pixelsAtOnce / (video.codedWidth * video.codedHeight)));
  const found: Candidate[] = [];
  for (let at = 0; at < positions.length; at += most) {
    found.push(...(await lookAtOnce(context, video, positions.slice(at, at + most))));
  }
  return found;
}

async function lookAtOnce(
  context: StepContext,
  video: VideoTrack,
  positions: readonly FramePosition[],
): Promise<Candidate[]> {
  const { path, source, scratch } = context;
  const size = fitInside(source, lookedAt);
  const wanted = positions.map((position, index) => ({
    ...position,
    file: join(scratch, `${position.seek}-${position.atMs}-${index}.raw`),
  }));
  let output: Buffer;
  try {
    output = await context.ffmpeg(candidateArgs(path, source, size, wanted));
  } catch (error) {
    // A damaged place must not cost the others: they are looked at one by one.
    if (!(error instanceof ProgramError) || error.failure !== 'exit') throw error;
    if (positions.length === 1) return [];
    const found: Candidate[] = [];
    for (const position of positions) found.push(...(await lookAtOnce(context, video, [position])));
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

/** The source is at fault: its headers were read, but there is nothing in it to show. */
export function nothingDecodes(): RenderError {
  return new RenderError('corrupt_media', 'no frame of the video can be decoded');
}

/** The video track, for steps that are only planned where there is one. */
export function videoTrack({ source }: StepContext): VideoTrack {
  if (source.tracks.video === null) throw new RangeError('The source has no video.');
  return source.tracks.video;
}
