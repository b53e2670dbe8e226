import type { EventType } from '@mds/client';
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Context } from '../context.ts';
import type { EventsArguments } from '../events/follow-events.ts';

/** `mds events`: what happens, as it happens. */
export function registerEvents(program: Command, context: () => Context): void {
  program
    .command('events')
    .description('follow what happens, until Ctrl-C (needs a token)')
    .option('--after <id>', 'begin after the event of this number; 0 begins with the oldest that is kept', eventId)
    .addOption(new Option('--type <type...>', 'only events of these types').choices(TYPES))
    .addHelpText('after', HELP)
    .action(async (options: EventsArguments) => {
      const { followEvents } = await import('../events/follow-events.ts');
      return followEvents(context(), options);
    });
}

/** Spelled out here: `mds --help` loads no contract. */
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
  throw new InvalidArgumentError('It has to be the number of an event, as the first column shows it.');
}

const HELP = `
Progress (media.progress) is told only where --type asks for it: it comes
often, and is not kept. A connection that breaks is made anew, and goes on
after the last event that came.

Elsewhere than on a terminal: number, created_at, type, what it is about (a
medium, a region, what was purged), and what there is to say of it,
tab-separated. With --json one event of the API a line.

Examples:
  mds events --type media.ready media.failed rendition.failed
  mds events --after 0 --json | jq -r 'select(.type == "media.failed") | .data.id'
`;
