import type { Command } from 'commander';
import type { Context } from '../context.ts';
import { listByDefault } from './list-by-default.ts';

/** `mds workers`: workers and their jobs. */
export function registerWorkers(program: Command, context: () => Context): void {
  const workers = program.command('workers').description('workers and their jobs (default: list)');
  listByDefault(workers);

  workers
    .command('list', { isDefault: true })
    .description('list workers with their jobs (needs a token)')
    .addHelpText('after', LIST_HELP)
    .action(async () => {
      const { listWorkers } = await import('../workers/list-workers.ts');
      return listWorkers(context());
    });
}

const LIST_HELP = `
A worker is listed from its start until it stops, or for up to 20 seconds after
it was killed. Media of your token's project are named; those of other projects
are only counted.

In a pipe, one line for each running job: id of the worker, host, process id,
region, concurrency, start of the worker, number of its jobs, id of the media
object, start of the attempt, progress from 0 to 1, id of the job, tab-separated.
A worker without jobs has one line without the last four.
`;
