import { type JobRecord, type JobView, MAX_LOST_LEASES } from './job-queue.ts';
import type { MediaFailureRecord } from './media-repository.ts';

/** A job never waits longer than this, even if the wall clock was set back. */
export const LONGEST_JOB_DELAY_MS = 10 * 60_000;

/** The default priority of a job. */
export const DEFAULT_PRIORITY = 100;

/** The failure of a media object whose workers kept disappearing. */
export const LOST_LEASES_FAILURE: MediaFailureRecord = {
  code: 'worker_lost',
  message: `Processing was begun ${MAX_LOST_LEASES} times, and each time its worker disappeared. Look into the service's log, then retry.`,
  retryable: true,
};

/** Why a run failed that was given back without a failure, and one whose worker died. */
export const STOPPED_REASON = 'Its worker was stopped.';
export const LOST_REASON = 'Its worker disappeared.';

/** The stored columns of a job. */
export interface JobRow {
  id: number;
  mediaId: string;
  priority: number;
  dueAtMs: number;
  attempts: number;
  leaseToken: string | null;
  leaseWorker: string | null;
  lastReason: string | null;
  progress: number | null;
}

/**
 * Returns the state of a stored job, by the wall clock.
 * @param latest the latest run of the media object's jobs; null: there was none. If the job is under a lease, this is the run in progress.
 */
export function jobViewOf(
  job: JobRow,
  latest: { attempt: number; startedAtMs: number } | null,
  nowMs: number,
): JobView {
  const isRunning = job.leaseToken !== null;
  return {
    jobId: job.id,
    mediaId: job.mediaId,
    priority: job.priority,
    worker: isRunning ? job.leaseWorker : null,
    attempt: job.attempts + 1,
    runs: latest?.attempt ?? 0,
    startedAtMs: isRunning ? (latest?.startedAtMs ?? null) : null,
    progress: job.progress,
    dueInMs: dueInMsOf(job, nowMs),
    dueAtMs: job.dueAtMs > nowMs + LONGEST_JOB_DELAY_MS ? nowMs : job.dueAtMs,
    lastReason: job.lastReason,
  };
}

/** A stored job as an engine that hands jobs out sees it. */
export function jobRecordOf(
  job: { id: number; mediaId: string; priority: number; dueAtMs: number; leaseToken: string | null },
  nowMs: number,
): JobRecord {
  const { id: jobId, mediaId, priority, leaseToken: token } = job;
  return { jobId, mediaId, priority, token, dueInMs: dueInMsOf(job, nowMs) };
}

/** Milliseconds until it may be claimed. A job that is due too far ahead is due now, as for `claim`: the wall clock was set back. */
function dueInMsOf({ dueAtMs }: { dueAtMs: number }, nowMs: number): number {
  return dueAtMs > nowMs + LONGEST_JOB_DELAY_MS ? 0 : Math.max(0, dueAtMs - nowMs);
}
