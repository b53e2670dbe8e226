import type { JobRecord } from '../../db/job-queue.ts';

/** The engine's server is unavailable or refuses. The engine logs that itself, now and then. */
export class EngineAwayError extends Error {
  constructor(reason: string) {
    super(`The job engine is away: ${reason}`);
    this.name = 'EngineAwayError';
  }
}

/** A job in the engine. */
export interface EngineJob {
  /** Id of its row. */
  jobId: number;
  /** `finished`: kept for operators, and not handed out any more. */
  state: 'waiting' | 'delayed' | 'active' | 'finished';
  /** Token of the claim under which it is active; null if the engine has lost it, and no claim can end the job. */
  token: string | null;
  /** Milliseconds until a `delayed` job is handed out; 0 if it may be now. */
  dueInMs: number;
}

/** A job that was handed out. */
export interface HandedOut {
  jobId: number;
  /** Token of the claim that it was handed out to. */
  token: string;
}

/**
 * Hands jobs out: most urgent first, oldest first within a priority, each to one taker. It holds copies. The rows are the truth, and only
 * their leases decide who may write. Every method acts only as far as the job is in the expected state.
 */
export interface QueueEngine {
  /** Puts these jobs in, in this order. Jobs that it has already are unchanged. */
  put(jobs: readonly JobRecord[]): Promise<void>;
  /** Hands out a job that is due; null if there is none. @param token unique to this claim */
  take(as: { worker: string; token: string }): Promise<number | null>;
  /**
   * Makes the job available again, at its old place in the order if without delay. After a delay it may come after waiting jobs of its
   * priority.
   * @returns false if it was not active under this token
   */
  putBack(job: HandedOut, delayMs: number): Promise<boolean>;
  /** Removes a job that is done, or no longer wanted. @param job.token null: it is not active */
  remove(job: { jobId: number; token: string | null }): Promise<void>;
  /** Ends a job that failed. It is kept with the reason, for operators. */
  bury(job: HandedOut, reason: string): Promise<void>;
  /** Makes a delayed job due now. */
  hasten(jobId: number): Promise<void>;
  /** Those of these jobs that the engine has. */
  find(jobIds: readonly number[]): Promise<EngineJob[]>;
  /** Pages through all unfinished jobs. @param after null at first, then the value returned with the last page */
  page(after: string | null, limit: number): Promise<{ jobs: EngineJob[]; next: string | null }>;
  /** Runs a task while no other process does; null if another process runs one already. */
  alone<T>(work: () => Promise<T>): Promise<T | null>;
  close(): Promise<void>;
}
