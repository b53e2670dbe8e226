import type { Command } from 'commander';
import type { Context } from '../context.ts';
import { listsAlone } from './lists-alone.ts';

/** `mds workers`: who works, and on what. */
export function registerWorkers(program: Command, context: () => Context): void {
  const workers = program.command('workers').description('who works, and on what; alone it lists them');
  listsAlone(workers);

  workers
    .command('list', { isDefault: true })
    .description('list workers, each with what it works on (needs a token)')
    .addHelpText('after', LIST_HELP)
    .action(async () => {
      const { listWorkers } = await import('../workers/list-workers.ts');
      return listWorkers(context());
    });
}

const LIST_HELP = `
A worker is listed from its start until it is stopped; one that was killed for
up to 20 seconds more. Of what runs, media of your token's project are named;
those of others count.

Elsewhere than on a terminal: id of the worker, host, process id, region,
concurrency, since when it works, how many jobs it has, and of each a line with
id of the media object, when the attempt was begun, progress from 0 to 1 and id of the
job, tab-separated; one line without these for a worker that has none.
`;
