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
import { decodingWork, encodingWork, soundWork } from './work.ts';

type Source = IdentifiedFile & { readonly tracks: Tracks };

/** Of the whole step: packaging is copying. */
const encodingShare = 0.95;

/** Steps for presets of the types `hls` and `mp4`: one, which decodes the source once for all of them. */
export function videoSteps(source: Source, wanted: readonly PlannedRendition[]): Step[] {
  const renditions = [...wanted.filter(isMp4), ...wanted.filter(isHls)];
  if (renditions.length === 0) return [];
  const encodes = encodesOf(renditions, '', (_planned, { mayCopy }) => mayCopy);
  const pixels = encodes.reduce((sum, { width, height }) => sum + width * height, 0);
  const weight = 0.3 + decodingWork(source) + encodingWork(source, pixels) + soundWork(source);
  const run = async (context: StepContext) => {
    const streams = await makeStreams(context, renditions, (fraction) => context.progress(encodingShare * fraction));
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
  return [{ name: 'ladder', renditions, weight, run }];
}
