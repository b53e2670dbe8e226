import { initContract } from '@ts-rest/core';
import { z } from 'zod';
import { Cursor } from './media.ts';
import { controlProblems } from './problem.ts';
import { Limit, listOf, MediaId, Timestamp } from './scalars.ts';

const c = initContract();

/** `queued`: it waits to be claimed. `running`: a worker has it under a lease. What is done, or failed for good, has no job any more. */
export const JobState = z.enum(['queued', 'running'], { error: 'must be queued or running' });
export type JobState = z.infer<typeof JobState>;

/** What there is to be done about one media object; it has one job at a time. */
export const Job = z
  .strictObject({
    object: z.literal('job'),
    id: z.string().meta({ description: 'As it is called in the tools of BullMQ, too', example: 'job-42' }),
    media_id: MediaId,
    state: JobState,
    priority: z.int().meta({ description: 'The lower, the sooner; of equal ones the oldest goes first' }),
    attempts: z.int().min(0).meta({
      description:
        'Times that processing the media object was begun, the attempt that runs, lost and released ones included',
    }),
    due_at: Timestamp.meta({
      description: 'From when on it may be claimed: in the future where it is to be tried again',
    }),
    worker: z.string().nullable().meta({ description: 'Who has it; null unless `running`' }),
    started_at: Timestamp.nullable().meta({
      description: 'When the attempt that runs was begun; null unless `running`',
    }),
    progress: z.number().min(0).max(1).nullable().meta({
      description: 'Share of the processing that is done; null unless `running`, and while nothing is known of it',
    }),
    last_reason: z.string().nullable().meta({
      description: 'A sentence: why the attempt before came to nothing; null where there was none for this job',
    }),
  })
  .meta({ id: 'Job' });
export type Job = z.infer<typeof Job>;

/** A page of {@link Job}, oldest first. */
export const JobList = listOf(Job).extend({ next_cursor: z.string().nullable() }).meta({ id: 'JobList' });
export type JobList = z.infer<typeof JobList>;

/** The routes for the queue of jobs. What is done about one of them is done about its media object: `retry`, `delete`. */
export const jobsRoutes = c.router({
  list: {
    method: 'GET',
    path: '/jobs',
    summary: 'List jobs',
    description:
      'What is worked on and what waits, oldest first: of equal priority, the order in which jobs are handed out. A job that is done, or failed for good, is in the list no more.',
    query: z.object({ limit: Limit, cursor: Cursor.optional(), state: JobState.optional() }),
    responses: { ...controlProblems, 200: JobList },
    metadata: { scope: 'ingest' },
  },
});
