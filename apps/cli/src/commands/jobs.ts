import type { JobState } from '@mds/client';
import { type Command, Option } from 'commander';
import type { Context } from '../context.ts';
import type { JobListArguments } from '../jobs/list-jobs.ts';
import { positiveCount } from './arguments.ts';
import { listsAlone } from './lists-alone.ts';

const STATES: readonly JobState[] = ['queued', 'running'];

/** `mds jobs`: what is worked on, and what waits. */
export function registerJobs(program: Command, context: () => Context): void {
  const jobs = program.command('jobs').description('what is being processed and what waits; alone it lists them');
  listsAlone(jobs);

  jobs
    .command('list', { isDefault: true })
    .description('list jobs, oldest first (needs a token)')
    .option('--limit <count>', 'how many', positiveCount, 25)
    .option('--all', 'every one there is')
    .option('--cursor <cursor>', "go on after an earlier page's next_cursor")
    .addOption(new Option('--state <state>', 'only those in this state').choices(STATES))
    .addHelpText('after', LIST_HELP)
    .action(async (options: JobListArguments) => {
      const { listJobs } = await import('../jobs/list-jobs.ts');
      return listJobs(context(), options);
    });
}

const LIST_HELP = `
Every media object that is to be processed has one job; what is ready or failed has
none. mds media explain tells more of one of them, mds media list --status
failed what failed for good.

Elsewhere than on a terminal: id of the media object, state, priority (the lower, the
sooner), attempts, progress from 0 to 1, when the attempt that runs was begun,
from when on it may be claimed, worker, why the last attempt came to nothing,
id of the job, tab-separated.
`;
