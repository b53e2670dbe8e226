import type { JobState } from '@mds/client';
import { type Command, Option } from 'commander';
import type { Context } from '../context.ts';
import type { JobListArguments } from '../jobs/list-jobs.ts';
import { positiveCount } from './arguments.ts';
import { listByDefault } from './list-by-default.ts';

const STATES: readonly JobState[] = ['queued', 'running'];

/** `mds jobs`: jobs that run or wait. */
export function registerJobs(program: Command, context: () => Context): void {
  const jobs = program.command('jobs').description('jobs that run or wait (default: list)');
  listByDefault(jobs);

  jobs
    .command('list', { isDefault: true })
    .description('list jobs, oldest first (needs a token)')
    .option('--limit <count>', 'how many', positiveCount, 25)
    .option('--all', 'all of them')
    .option('--cursor <cursor>', "continue after an earlier page's next_cursor")
    .addOption(new Option('--state <state>', 'only this state').choices(STATES))
    .addHelpText('after', LIST_HELP)
    .action(async (options: JobListArguments) => {
      const { listJobs } = await import('../jobs/list-jobs.ts');
      return listJobs(context(), options);
    });
}

const LIST_HELP = `
A media object has one job until it is ready or failed. mds media explain shows
more about one job. mds media list --status failed lists what failed for good.

In a pipe: id of the media object, state, priority (lower runs sooner), attempts,
progress from 0 to 1, start of the current attempt, time from which it may be
claimed, worker, reason why the last attempt failed, id of the job, tab-separated.
`;
