import type { Job, JobState } from '@mds/client';
import type { Context } from '../context.ts';
import { colourState } from '../output/colours.ts';
import { listPages, type PageArguments } from '../output/list-pages.ts';
import { humanAge, humanDuration, percent } from '../output/quantities.ts';
import type { Column } from '../output/table.ts';

/** The options of `mds jobs list`, parsed. */
export interface JobListArguments extends PageArguments {
  state?: JobState;
}

/** Lists running and waiting jobs, oldest first. */
export async function listJobs(context: Context, options: JobListArguments): Promise<void> {
  const client = await context.operator();
  const { state } = options;
  const { signal } = context.io;
  await listPages(
    context,
    options,
    (page) => client.control.jobs.list({ ...page, state, signal }),
    columnsOf(context),
    state === undefined ? 'No jobs are running or waiting.' : `No jobs are ${state}.`,
    'oldest',
  );
}

function columnsOf({ colours, interactive }: Context): Column<Job>[] {
  const now = Date.now();
  const mediaObject: Column<Job> = { title: 'MEDIA', text: ({ media_id: id }) => id };
  const state: Column<Job> = {
    title: 'STATE',
    text: (job) => job.state,
    colour: (text, job) => colourState(colours, job.state === 'running' ? 'processing' : job.state, text),
  };
  const priority: Column<Job> = {
    title: 'PRIORITY',
    text: (job) => String(job.priority),
    align: 'right',
    expendable: 3,
  };
  const attempts: Column<Job> = {
    title: 'ATTEMPTS',
    text: (job) => String(job.attempts),
    align: 'right',
    expendable: 2,
  };
  const done: Column<Job> = {
    title: 'DONE',
    text: ({ progress }) => (progress === null ? '-' : percent(progress)),
    plain: ({ progress }) => String(progress ?? ''),
    align: 'right',
  };
  const worker: Column<Job> = {
    title: 'WORKER',
    text: (job) => job.worker ?? '-',
    plain: (job) => job.worker ?? '',
    expendable: 1,
  };
  const reason: Column<Job> = {
    title: 'LAST REASON',
    text: ({ last_reason: reason }) => reason ?? (interactive ? '-' : ''),
    shrinkTo: 16,
    expendable: 4,
  };
  if (interactive) {
    const since: Column<Job> = { title: 'SINCE', text: (job) => sinceOf(job, now), align: 'right' };
    return [mediaObject, state, priority, attempts, done, since, worker, reason];
  }
  return [
    ...[mediaObject, state, priority, attempts, done],
    { title: 'STARTED', text: ({ started_at: at }) => at ?? '' },
    { title: 'DUE', text: ({ due_at: at }) => at },
    ...[worker, reason],
    { title: 'JOB', text: ({ id }) => id },
  ];
}

/** How long the job has been running or ready to run, or the time until its next attempt. */
function sinceOf({ started_at: startedAt, due_at: dueAt }: Job, nowMs: number): string {
  if (startedAt !== null) return humanAge(startedAt, nowMs);
  const inMs = Date.parse(dueAt) - nowMs;
  // Rounds up, so that it never shows a time before the job is due.
  return inMs > 0 ? `in ${humanDuration(inMs + 999)}` : humanAge(dueAt, nowMs);
}
