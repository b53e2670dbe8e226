import { toneMappingFilters } from '../../ffmpeg/argv/ladder.ts';
import type { StepContext } from './step.ts';

/**
 * Whether this ffmpeg can map high dynamic range to what any screen shows: one that was built without zimg cannot. The pictures
 * then come out flat, which is better than not at all, and the source's owner is told.
 */
export async function canToneMap(context: StepContext): Promise<boolean> {
  const listed = (await context.ffmpeg(['-filters'])).toString('utf8');
  // One line each: flags, name, pads, description.
  const names = new Set(listed.split('\n').map((line) => line.trim().split(/\s+/)[1]));
  if (toneMappingFilters.every((name) => names.has(name))) return true;
  context.warn(
    'The source has high dynamic range, which this ffmpeg cannot map to what any screen shows: colours look flat.',
  );
  return false;
}

/** The context for frames: as it is where they can be mapped, else with the source taken for an ordinary one. */
export async function withMappableSource(context: StepContext): Promise<StepContext> {
  const { source } = context;
  const { video } = source.tracks;
  if (video === null || video.hdr === null || (await canToneMap(context))) return context;
  return { ...context, source: { ...source, tracks: { ...source.tracks, video: { ...video, hdr: null } } } };
}
