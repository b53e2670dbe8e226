import { initContract } from '@ts-rest/core';
import { z } from 'zod';
import { Job } from './jobs.ts';
import { controlProblems } from './problem.ts';
import { listOf, RegionCode, Timestamp } from './scalars.ts';

const c = initContract();

/** Maximum number of listed workers: the first by id. Large deployments have hundreds. */
export const MAX_LISTED_WORKERS = 1000;

/** A process that runs jobs, as last reported by its heartbeats. */
export const Worker = z
  .strictObject({
    object: z.literal('worker'),
    id: z.string().meta({ description: 'Also the `worker` of its jobs', example: 'vm:22735:0387a402' }),
    host: z.string().nullable().meta({
      description:
        'Name of its machine; null, like `region` and `since`, if the worker runs a version that does not report it',
      example: 'vm',
    }),
    pid: z.int().meta({ description: 'Process id on that machine' }),
    region: RegionCode.nullable().meta({ description: 'Code of the region in its `MDS_REGION`' }),
    concurrency: z.int().min(1).meta({ description: 'Maximum number of concurrent jobs' }),
    since: Timestamp.nullable().meta({ description: 'Start of the worker, by its own clock' }),
    running: z.int().min(0).meta({ description: 'Number of running jobs, including those of other projects' }),
    jobs: z.array(Job).meta({ description: "Running jobs of the token's project, oldest first" }),
  })
  .meta({ id: 'Worker' });
export type Worker = z.infer<typeof Worker>;

/**
 * All workers in one answer, ordered by id, which groups them by machine. It has no pages: there are hundreds at most, each with no more
 * jobs than its `concurrency`. Beyond {@link MAX_LISTED_WORKERS}, the rest is omitted.
 */
export const WorkerList = listOf(Worker)
  .extend({ data: z.array(Worker).max(MAX_LISTED_WORKERS) })
  .meta({ id: 'WorkerList' });
export type WorkerList = z.infer<typeof WorkerList>;

/** The routes for workers. Workers announce themselves, so there is nothing to add or remove. */
export const workersRoutes = c.router({
  list: {
    method: 'GET',
    path: '/workers',
    summary: 'List workers',
    description:
      'Returns all workers with their running jobs, without pages. A worker is listed from its start until it is stopped. A worker that was killed stays listed with its jobs for up to 20 seconds.',
    responses: { ...controlProblems, 200: WorkerList },
    metadata: { scope: 'ingest' },
  },
});
