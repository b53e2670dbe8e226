import picocolors from 'picocolors';
import type { Io, OutputStream } from '../io.ts';

/** Functions that colour a text, or return it unchanged. */
export type Colours = ReturnType<typeof picocolors.createColors>;

/**
 * Whether a stream gets colours. NO_COLOR (no-color.org) disables them and FORCE_COLOR (unless it is 0) enables them. Otherwise a
 * terminal gets them unless TERM is dumb.
 */
export function hasColours(stream: OutputStream, env: Io['env']): boolean {
  if (env['NO_COLOR']) return false;
  const forced = env['FORCE_COLOR'];
  if (forced !== undefined && forced !== '') return forced !== '0' && forced !== 'false';
  return stream.isTTY === true && env['TERM'] !== 'dumb';
}

/** The colours for a stream. */
export function coloursFor(stream: OutputStream, env: Io['env']): Colours {
  return picocolors.createColors(hasColours(stream, env));
}

/**
 * Colours the state of a media object, rendition, region, service, cache or node. Unknown states stay plain.
 * @param text the text to colour; by default the state itself
 */
export function colourState(colours: Colours, state: string, text = state): string {
  switch (state) {
    case 'ready':
    case 'operational':
    case 'HIT':
    case 'created':
    case 'purged':
    case 'alive':
      return colours.green(text);
    case 'processing':
    case 'under_maintenance':
    case 'existing':
    case 'accepted':
      return colours.cyan(text);
    case 'degraded_performance':
    case 'partial_outage':
    case 'MISS':
    case 'silent':
      return colours.yellow(text);
    case 'failed':
    case 'major_outage':
      return colours.red(text);
    case 'queued':
    case 'pending':
    case 'skipped':
      return colours.dim(text);
    default:
      return text;
  }
}
