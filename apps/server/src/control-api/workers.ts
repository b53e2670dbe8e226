import { api, MAX_LISTED_WORKERS, type Worker } from '@mds/contract';
import { initServer } from '@ts-rest/express';
import { type Presented, timestamp } from '../base/presented.ts';
import type { JobQueue, RunningJob, WorkerRecord } from '../db/job-queue.ts';
import { tokenOf } from './authenticate.ts';
import { hiderOf } from './hidden-texts.ts';
import { presentJob } from './job.ts';

/** Parts of the worker routes. */
export interface ControlWorkersParts {
  jobs: Pick<JobQueue, 'workers' | 'running'>;
  /** Texts to hide (paths of this machine, secrets), each with its replacement. */
  hidden: Readonly<Record<string, string>>;
}

/**
 * The routes under `/control/v1/workers`. Workers belong to the deployment, so every token sees all of them. It sees the jobs of its own
 * project, and the number of the others, so that a busy worker never looks idle.
 */
export function createControlWorkersHandlers({ jobs, hidden }: ControlWorkersParts) {
  const hide = hiderOf(hidden);
  return initServer().router(api.control.workers, {
    list: async ({ req }) => {
      const { projectId } = tokenOf(req);
      const workers = (await jobs.workers()).slice(0, MAX_LISTED_WORKERS);
      const held = byWorker(await jobs.running());
      const data = workers.map((worker): Presented<Worker> => {
        const running = held.get(worker.id) ?? [];
        const own = running.filter((job) => job.projectId === projectId);
        return { ...presentWorker(worker), running: running.length, jobs: own.map((job) => presentJob(job, hide)) };
      });
      return { status: 200, body: { object: 'list' as const, data } };
    },
  });
}

function byWorker(jobs: readonly RunningJob[]): Map<string | null, RunningJob[]> {
  const found = new Map<string | null, RunningJob[]>();
  for (const job of jobs) {
    const before = found.get(job.worker);
    if (before) before.push(job);
    else found.set(job.worker, [job]);
  }
  return found;
}

function presentWorker(worker: WorkerRecord): Presented<Omit<Worker, 'running' | 'jobs'>> {
  const { id, host, pid, region, concurrency, sinceMs } = worker;
  const since = sinceMs === null ? null : timestamp(sinceMs);
  return { object: 'worker', id, host, pid, region, concurrency, since };
}
