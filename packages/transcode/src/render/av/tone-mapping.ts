import { toneMappingFilters } from '../../ffmpeg/argv/ladder.ts';
import type { StepContext } from './step.ts';

/**
 * True if this ffmpeg can map high dynamic range to standard range; builds without zimg cannot. In that case the pictures look
 * flat, which is better than none, and a warning reports it.
 */
export async function canToneMap(context: StepContext): Promise<boolean> {
  const listed = (await context.ffmpeg(['-filters'])).toString('utf8');
  // One line each: flags, name, pads, description.
  const names = new Set(listed.split('\n').map((line) => line.trim().split(/\s+/)[1]));
  if (toneMappingFilters.every((name) => names.has(name))) return true;
  context.warn(
    'The source has high dynamic range, which this ffmpeg cannot convert to standard range: colours look flat.',
  );
  return false;
}

/** The context for frames, with its source treated as standard range if it cannot be tone-mapped. */
export async function withMappableSource(context: StepContext): Promise<StepContext> {
  const { source } = context;
  const { video } = source.tracks;
  if (video === null || video.hdr === null || (await canToneMap(context))) return context;
  return { ...context, source: { ...source, tracks: { ...source.tracks, video: { ...video, hdr: null } } } };
}
