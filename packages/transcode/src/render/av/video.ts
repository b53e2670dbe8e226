import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { ProgramError } from '../../ffmpeg/run.ts';
import type { IdentifiedFile, Tracks } from '../../identified.ts';
import type { PlannedRendition } from '../../plan.ts';
import type { ReadyRendition } from '../result.ts';
import { failedRendition } from './failure.ts';
import { makeHls } from './hls.ts';
import { encodesOf, isHls, isMp4, type PlannedHls, type PlannedMp4 } from './ladder.ts';
import { makeMp4 } from './mp4.ts';
import type { Step, StepContext } from './step.ts';
import { makeStreams, type Streams } from './streams.ts';
import { audioWork, decodingWork, encodingWork } from './work.ts';

type Source = IdentifiedFile & { readonly tracks: Tracks };

/** Share of the whole step; packaging is only copying. */
const encodingShare = 0.95;

/**
 * Steps for presets of the types `hls` and `mp4`: a single step, which decodes the source once for all of them. `beside`:
 * renditions that exist already and share their keyframes with the new ones.
 */
export function videoSteps(
  source: Source,
  wanted: readonly PlannedRendition[],
  beside: readonly PlannedRendition[] = [],
): Step[] {
  const renditions = [...wanted.filter(isMp4), ...wanted.filter(isHls)];
  const others = [...beside.filter(isMp4), ...beside.filter(isHls)];
  if (renditions.length === 0) return [];
  const encodes = encodesOf(renditions, '', (_planned, { encodedBecause }) => encodedBecause === null);
  const pixels = encodes.reduce((sum, { width, height }) => sum + width * height, 0);
  const weight = 0.3 + decodingWork(source) + encodingWork(source, pixels) + audioWork(source);
  const run = async (context: StepContext) => {
    const onProgress = (fraction: number) => context.progress(encodingShare * fraction);
    const streams = await makeStreams(context, renditions, others, { onProgress });
    context.progress(encodingShare);
    for (const planned of renditions) {
      try {
        context.finish(planned, await makeOrEncode(context, planned, streams, [...renditions, ...others]));
      } catch (error) {
        if (context.signal?.aborted) throw error;
        context.finish(planned, failedRendition(planned, error));
      }
    }
    context.progress(1);
  };
  return [{ name: 'ladder', renditions, weight, run }];
}

/**
 * Makes a rendition from these streams. If that fails and some of them were copied, everything is encoded instead. Some defects
 * of a source show only when its copy is packaged and read back.
 */
async function makeOrEncode(
  context: StepContext,
  planned: PlannedHls | PlannedMp4,
  streams: Streams,
  all: ReadonlyArray<PlannedHls | PlannedMp4>,
): Promise<ReadyRendition> {
  try {
    return await make(context, planned, streams);
  } catch (error) {
    const ended = context.signal?.aborted || (error instanceof ProgramError && error.failure === 'start');
    if (ended || !streams.hasCopies(planned)) throw error;
    const scratch = await mkdtemp(join(context.scratch, 'encoded-'));
    const beside = all.filter((each) => each !== planned);
    const encoded = await makeStreams({ ...context, scratch }, [planned], beside, {
      onProgress: () => undefined,
      encodeAll: true,
    });
    const made = await make({ ...context, scratch }, planned, encoded);
    context.warn('A copy of the source was defective, so it was encoded instead; parts may look or sound wrong.');
    return made;
  }
}

/** Makes the rendition; removes its files if that fails. */
async function make(context: StepContext, planned: PlannedHls | PlannedMp4, streams: Streams): Promise<ReadyRendition> {
  try {
    return isMp4(planned) ? await makeMp4(context, planned, streams) : await makeHls(context, planned, streams);
  } catch (error) {
    const place = isMp4(planned) ? `${planned.name}.${planned.extension}` : planned.name;
    await rm(join(context.outDir, place), { recursive: true, force: true });
    throw error;
  }
}
