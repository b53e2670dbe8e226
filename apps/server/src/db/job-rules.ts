import { type JobStanding, MAX_LOST_LEASES } from '../jobs/job-queue.ts';
import type { MediaFailureRecord } from './media-repository.ts';

/** A job is never kept waiting longer than this by a wall clock that was set back. */
export const LONGEST_JOB_DELAY_MS = 10 * 60_000;

/** Of a job whose priority nobody chose. */
export const DEFAULT_PRIORITY = 100;

/** What is said of a medium whose workers kept disappearing. */
export const LOST_LEASES_FAILURE: MediaFailureRecord = {
  code: 'worker_lost',
  message: `Processing was begun ${MAX_LOST_LEASES} times, and each time its worker disappeared. Look into the service's log, then retry.`,
  retryable: true,
};

/** A job as it is stored. */
export interface JobRow {
  mediaId: string;
  dueAtMs: number;
  attempts: number;
  leaseToken: string | null;
  leaseWorker: string | null;
  lastReason: string | null;
  progress: number | null;
}

/** Where a stored job stands, by the wall clock. */
export function standingOf(job: JobRow, nowMs: number): JobStanding {
  return {
    mediaId: job.mediaId,
    worker: job.leaseToken === null ? null : job.leaseWorker,
    attempt: job.attempts + 1,
    progress: job.progress,
    // One that a wall clock has moved far ahead of is due, as `claim` has it.
    dueInMs: job.dueAtMs > nowMs + LONGEST_JOB_DELAY_MS ? 0 : Math.max(0, job.dueAtMs - nowMs),
    lastReason: job.lastReason,
  };
}
