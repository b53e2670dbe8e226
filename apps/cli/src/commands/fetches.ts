import type { FetchStatus } from '@mds/client';
import { type Command, Option } from 'commander';
import type { Context } from '../context.ts';
import type { FetchListArguments } from '../fetches/list-fetches.ts';
import { positiveCount } from './arguments.ts';
import { listByDefault } from './list-by-default.ts';

const STATES: readonly FetchStatus[] = ['queued', 'fetching', 'done', 'failed', 'canceled'];

/** `mds fetches`: files that the service fetches from URLs. */
export function registerFetches(program: Command, context: () => Context): void {
  const fetches = program
    .command('fetches')
    .description('files that the service fetches from URLs: list, inspect, cancel (default: list)');
  listByDefault(fetches);

  fetches
    .command('list', { isDefault: true })
    .description('list fetches, newest first (needs a token)')
    .option('--limit <count>', 'how many', positiveCount, 25)
    .option('--all', 'all of them')
    .option('--cursor <cursor>', "continue after an earlier page's next_cursor")
    .addOption(new Option('--status <status>', 'only this state').choices(STATES))
    .addHelpText('after', LIST_HELP)
    .action(async (options: FetchListArguments) => {
      const { listFetches } = await import('../fetches/list-fetches.ts');
      return listFetches(context(), options);
    });

  fetches
    .command('get')
    .description('show a fetch and its progress (needs a token)')
    .argument('<id>', 'fch_…')
    .action(async (id: string) => {
      const { showFetch } = await import('../fetches/show-fetch.ts');
      return showFetch(context(), id);
    });

  fetches
    .command('cancel')
    .description('stop fetches and remove what they received (needs a token)')
    .argument('<id...>', 'fch_…')
    .action(async (ids: string[]) => {
      const { cancelFetches } = await import('../fetches/cancel-fetches.ts');
      return cancelFetches(context(), ids);
    });
}

const LIST_HELP = `
In a pipe: id, status, bytes received, total bytes (empty if the source does not
state them), creation time, URL without its query, id of the media object,
error, tab-separated.
`;
