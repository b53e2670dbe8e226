import { initContract } from '@ts-rest/core';
import { z } from 'zod';
import { Cursor } from './media.ts';
import { controlProblems } from './problem.ts';
import { Limit, listOf, MediaId, Timestamp } from './scalars.ts';

const c = initContract();

/** `queued`: no worker has claimed the job. `running`: a worker holds its lease. A job ends when its media object is ready or has failed. */
export const JobState = z.enum(['queued', 'running'], { error: 'must be queued or running' });
export type JobState = z.infer<typeof JobState>;

/** The processing of one media object. A media object has at most one job at a time. */
export const Job = z
  .strictObject({
    object: z.literal('job'),
    id: z.string().meta({ description: 'Also the id of the job in BullMQ tools', example: 'job-42' }),
    media_id: MediaId,
    state: JobState,
    priority: z.int().meta({ description: 'Lower values run first; for equal values, the oldest job' }),
    attempts: z.int().min(0).meta({
      description:
        'Number of attempts to process the media object, including the running one and those that were lost or released',
    }),
    due_at: Timestamp.meta({
      description:
        'The earliest time at which a worker may claim the job; in the future while it waits for another attempt',
    }),
    worker: z.string().nullable().meta({ description: 'Id of the worker that runs the job; null unless `running`' }),
    started_at: Timestamp.nullable().meta({
      description: 'Start of the running attempt; null unless `running`',
    }),
    progress: z.number().min(0).max(1).nullable().meta({
      description:
        'Share of the processing that is done, from 0 to 1; null unless `running`, and until the worker reports it',
    }),
    last_reason: z.string().nullable().meta({
      description: 'Why the previous attempt of this job failed, as a sentence; null if there was none',
    }),
  })
  .meta({ id: 'Job' });
export type Job = z.infer<typeof Job>;

/** A page of {@link Job}, oldest first. */
export const JobList = listOf(Job).extend({ next_cursor: z.string().nullable() }).meta({ id: 'JobList' });
export type JobList = z.infer<typeof JobList>;

/** The routes for the job queue. A job is changed through its media object: `retry`, `delete`. */
export const jobsRoutes = c.router({
  list: {
    method: 'GET',
    path: '/jobs',
    summary: 'List jobs',
    description:
      'Returns running and queued jobs, oldest first. For equal priority, this is the order in which workers get them. A finished job is no longer listed.',
    query: z.object({ limit: Limit, cursor: Cursor.optional(), state: JobState.optional() }),
    responses: { ...controlProblems, 200: JobList },
    metadata: { scope: 'ingest' },
  },
});
