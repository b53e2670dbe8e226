import type { EventType } from '@mds/client';
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Context } from '../context.ts';
import type { EventsArguments } from '../events/follow-events.ts';

/** `mds events`: follows events as they happen. */
export function registerEvents(program: Command, context: () => Context): void {
  program
    .command('events')
    .description('follow events until Ctrl-C (needs a token)')
    .option('--after <id>', 'start after this event number; 0 starts with the oldest event that is kept', eventId)
    .addOption(new Option('--type <type...>', 'only events of these types').choices(TYPES))
    .addHelpText('after', HELP)
    .action(async (options: EventsArguments) => {
      const { followEvents } = await import('../events/follow-events.ts');
      return followEvents(context(), options);
    });
}

/** Listed here, because `mds --help` must not load the contract. */
const TYPES = [
  'media.created',
  'media.processing',
  'media.progress',
  'media.ready',
  'media.failed',
  'media.deleted',
  'rendition.ready',
  'rendition.failed',
  'region.status_changed',
  'cache.purged',
] as const satisfies readonly EventType[];

function eventId(text: string): string {
  if (/^\d{1,15}$/.test(text)) return text;
  throw new InvalidArgumentError('It must be the number of an event, as in the first column.');
}

const HELP = `
media.progress is printed only if --type asks for it: it is frequent, and the
service does not keep it. If the connection breaks, mds reconnects and continues
after the last event.

In a pipe: number, created_at, type, subject (a media object, a region, or what
was purged), and details, tab-separated. With --json: one event of the API a line.

Examples:
  mds events --type media.ready media.failed rendition.failed
  mds events --after 0 --json | jq -r 'select(.type == "media.failed") | .data.id'
`;
