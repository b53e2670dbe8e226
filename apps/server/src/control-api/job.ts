import type { Job } from '@mds/contract';
import { type Presented, timestamp } from '../base/presented.ts';
import type { JobView } from '../db/job-queue.ts';

/** A job as its operator sees it. @param hide replaces paths and secrets in failure messages by names */
export function presentJob(job: JobView, hide: (text: string) => string): Presented<Job> {
  return {
    object: 'job',
    id: `job-${job.jobId}`,
    media_id: job.mediaId,
    state: job.worker === null ? 'queued' : 'running',
    priority: job.priority,
    attempts: job.runs,
    due_at: timestamp(job.dueAtMs),
    worker: job.worker,
    started_at: job.startedAtMs === null ? null : timestamp(job.startedAtMs),
    progress: job.progress,
    last_reason: job.lastReason === null ? null : hide(job.lastReason),
  };
}
