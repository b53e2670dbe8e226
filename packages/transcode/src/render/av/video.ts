import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { IdentifiedFile, Tracks } from '../../identified.ts';
import type { PlannedRendition } from '../../plan.ts';
import { failedRendition } from './failure.ts';
import { makeHls } from './hls.ts';
import { encodesOf, isHls, isMp4 } from './ladder.ts';
import { makeMp4 } from './mp4.ts';
import type { Step, StepContext } from './step.ts';
import { makeStreams } from './streams.ts';

type Source = IdentifiedFile & { readonly tracks: Tracks };

/** Of the whole step: packaging is copying. */
const encodingShare = 0.95;

/** Pixels of a frame that cost about as much as one unit of the weight of other steps. */
const pixelsPerWeight = 20_000;

/**
 * Steps for presets of the types `hls` and `mp4`: one, which decodes the source once for all of them. `beside`: those that are there
 * already, which decide with the others where keyframes are.
 */
export function videoSteps(
  _source: Source,
  wanted: readonly PlannedRendition[],
  beside: readonly PlannedRendition[] = [],
): Step[] {
  const renditions = [...wanted.filter(isMp4), ...wanted.filter(isHls)];
  const others = [...beside.filter(isMp4), ...beside.filter(isHls)];
  if (renditions.length === 0) return [];
  const pixels = encodesOf(renditions, '').reduce((sum, { width, height }) => sum + width * height, 0);
  const run = async (context: StepContext) => {
    const streams = await makeStreams(context, renditions, others, (fraction) =>
      context.progress(encodingShare * fraction),
    );
    context.progress(encodingShare);
    for (const planned of renditions) {
      try {
        context.finish(
          planned,
          isMp4(planned) ? await makeMp4(context, planned, streams) : await makeHls(context, planned, streams),
        );
      } catch (error) {
        if (context.signal?.aborted) throw error;
        await rm(join(context.outDir, isMp4(planned) ? `${planned.name}.${planned.extension}` : planned.name), {
          recursive: true,
          force: true,
        });
        context.finish(planned, failedRendition(planned, error));
      }
    }
    context.progress(1);
  };
  return [{ name: 'ladder', renditions, weight: 1 + pixels / pixelsPerWeight, run }];
}
