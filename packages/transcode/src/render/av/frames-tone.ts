import { toneMappingFilters } from '../../ffmpeg/argv/ladder.ts';
import type { StepContext } from './step.ts';

/**
 * The context for frames of a source of high dynamic range: as it is where this ffmpeg can map it to what any screen shows,
 * else with the source taken for an ordinary one and a warning. Flat pictures are better than none.
 */
export async function withMappableSource(context: StepContext): Promise<StepContext> {
  const { source } = context;
  const { video } = source.tracks;
  if (video === null || video.hdr === null) return context;
  const listed = (await context.ffmpeg(['-filters'])).toString('utf8');
  // One line each: flags, name, pads, description.
  const names = new Set(listed.split('\n').map((line) => line.trim().split(/\s+/)[1]));
  if (toneMappingFilters.every((name) => names.has(name))) return context;
  context.warn(
    'The source has high dynamic range, which this ffmpeg cannot map to what any screen shows: colours look flat.',
  );
  return { ...context, source: { ...source, tracks: { ...source.tracks, video: { ...video, hdr: null } } } };
}
