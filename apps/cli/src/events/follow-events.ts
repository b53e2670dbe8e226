import type { Event, EventType } from '@mds/client';
import type { Context } from '../context.ts';
import { colourState } from '../output/colours.ts';
import { pad } from '../output/display-width.ts';
import { jsonText } from '../output/json.ts';
import { printable } from '../output/printable.ts';
import { humanTiming, percent } from '../output/quantities.ts';

/** The options of `mds events`, parsed. */
export interface EventsArguments {
  after?: string;
  type?: EventType[];
}

/** Prints a line for every event, until the service ends the stream or the program is interrupted. */
export async function followEvents(context: Context, { after, type }: EventsArguments): Promise<void> {
  const client = await context.operator();
  const events = client.control.events({
    after,
    types: type,
    signal: context.io.signal,
    onReconnect({ delayMs }) {
      const pause = humanTiming(delayMs);
      context.note(context.errorColours.dim(`The connection was lost; the next attempt is in ${pause}.`));
    },
  });
  for await (const event of events) {
    if (type === undefined && event.type === 'media.progress') continue;
    if (context.json) context.print(jsonText(event, 0));
    else context.print(context.interactive ? humanLine(context, event) : plainLine(event));
  }
}

interface Described {
  number: string;
  at: string;
  subject: string;
  /** Further information. */
  detail: string;
  /** The state that decides the colour. */
  state: string;
}

function plainLine(event: Event): string {
  const { number, at, subject, detail } = describe(event);
  return [number, at, event.type, subject, detail].map(printable).join('\t');
}

function humanLine({ colours }: Context, event: Event): string {
  const { number, at, subject, detail, state } = describe(event);
  // Events of today show the time only; its Z marks it as UTC.
  const today = `${new Date().toISOString().slice(0, 10)}T`;
  const time = at.startsWith(today) ? at.slice(today.length) : at;
  const head = `${colours.dim(`${pad(printable(number), 5, 'right')}  ${pad(printable(time), 9)}`)}  `;
  const type = colourState(colours, state, pad(printable(event.type), 16));
  return `${head}${type}  ${printable(subject)}${detail ? `  ${printable(detail)}` : ''}`;
}

function describe(event: Event): Described {
  const stored = 'id' in event ? { number: event.id, at: event.created_at } : { number: '', at: '' };
  switch (event.type) {
    case 'media.created':
    case 'media.processing':
    case 'media.ready':
    case 'media.failed':
    case 'media.deleted': {
      const { id, status, error } = event.data;
      const state = event.type === 'media.deleted' ? 'skipped' : status;
      return { ...stored, subject: id, detail: error ? `${error.message} (${error.code})` : '', state };
    }
    case 'media.progress':
      return { ...stored, subject: event.data.id, detail: percent(event.data.progress), state: 'processing' };
    case 'rendition.ready':
      return { ...stored, subject: event.data.id, detail: `${event.data.name}.${event.data.extension}`, state: '' };
    case 'rendition.failed': {
      const { id, name, extension, reason } = event.data;
      const file = `${name}.${extension}`;
      // Most reasons begin with the name of the file.
      const detail = reason?.startsWith(file) ? reason : [file, reason].filter(Boolean).join(': ');
      return { ...stored, subject: id, detail, state: 'failed' };
    }
    case 'region.status_changed':
      return { ...stored, subject: event.data.code, detail: event.data.status, state: event.data.status };
    case 'cache.purged':
      return { ...stored, subject: event.data.media_id ?? event.data.path ?? 'everything', detail: '', state: '' };
    default:
      return unknownEvent(event);
  }
}

/** An event type of a newer service. */
function unknownEvent(event: never): Described {
  const { id, created_at: at, data } = event as Partial<Record<string, unknown>>;
  return { number: String(id ?? ''), at: String(at ?? ''), subject: '', detail: JSON.stringify(data ?? {}), state: '' };
}
