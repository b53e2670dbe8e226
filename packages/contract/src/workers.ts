import { initContract } from '@ts-rest/core';
import { z } from 'zod';
import { Job } from './jobs.ts';
import { controlProblems } from './problem.ts';
import { listOf, RegionCode, Timestamp } from './scalars.ts';

const c = initContract();

/** Workers that are listed at most, the first of them by their ids. A deployment has hundreds where it has many. */
export const MAX_LISTED_WORKERS = 1000;

/** A process that works on jobs, as its beats tell of it. */
export const Worker = z
  .strictObject({
    object: z.literal('worker'),
    id: z.string().meta({ description: 'As `worker` of its jobs has it', example: 'vm:22735:0387a402' }),
    host: z.string().nullable().meta({
      description: 'Name of its machine; null, as `region` and `since`, where it is of a version that did not tell',
      example: 'vm',
    }),
    pid: z.int().meta({ description: 'Its process on that machine' }),
    region: RegionCode.nullable().meta({ description: 'Code of the region that its `MDS_REGION` names' }),
    concurrency: z.int().min(1).meta({ description: 'Jobs that it has at once, at most' }),
    since: Timestamp.nullable().meta({ description: 'When it began, by its own clock' }),
    running: z.int().min(0).meta({ description: 'Jobs that it has now, those of other projects too' }),
    jobs: z.array(Job).meta({ description: "Those of them that are of the token's project, oldest first" }),
  })
  .meta({ id: 'Worker' });
export type Worker = z.infer<typeof Worker>;

/**
 * All workers in one answer, by id, which puts those of a machine together. It has no pages: there are hundreds at most, each with no more
 * jobs than its `concurrency`. Of more than {@link MAX_LISTED_WORKERS} the rest is left out.
 */
export const WorkerList = listOf(Worker)
  .extend({ data: z.array(Worker).max(MAX_LISTED_WORKERS) })
  .meta({ id: 'WorkerList' });
export type WorkerList = z.infer<typeof WorkerList>;

/** The routes for workers. They come and go by themselves, so that there is nothing to add or to remove. */
export const workersRoutes = c.router({
  list: {
    method: 'GET',
    path: '/workers',
    summary: 'List workers',
    description:
      'Who works, on what, and since when; all of them, without pages. A worker is in the list from its start until it is stopped. One that was killed is in it for up to 20 seconds more, and so are its jobs.',
    responses: { ...controlProblems, 200: WorkerList },
    metadata: { scope: 'ingest' },
  },
});
