import type { JobRecord } from '../../db/job-queue.ts';

/** The engine did not do it, as its server is away or takes nothing; it says so in the log by itself, and now and then. */
export class EngineAwayError extends Error {
  constructor(reason: string) {
    super(`The job engine is away: ${reason}`);
    this.name = 'EngineAwayError';
  }
}

/** A job as the engine has it. */
export interface EngineJob {
  /** Of its row. */
  jobId: number;
  /** `finished`: kept to be looked at, and handed out no more. */
  state: 'waiting' | 'delayed' | 'active' | 'finished';
  /** Of the claim under which it is active; null where the engine has lost it, so that nobody can end it. */
  token: string | null;
  /** Milliseconds until it is handed out where it is `delayed`; 0 where it may be. */
  dueInMs: number;
}

/** A job that was handed out. */
export interface HandedOut {
  jobId: number;
  /** Of the claim that it was handed out to. */
  token: string;
}

/**
 * What hands jobs out: most urgent first, oldest first within a priority, each to one taker. It holds copies; the rows are the truth, and
 * only their leases say who may write. Every method does what it is asked as far as the engine still has the job so.
 */
export interface QueueEngine {
  /** Puts these jobs in, in this order. Those that it has stay as they are. */
  put(jobs: readonly JobRecord[]): Promise<void>;
  /** Hands a job out that is due, or null. @param token unique to this claim */
  take(as: { worker: string; token: string }): Promise<number | null>;
  /**
   * The job is to be handed out again, at its old place in the order if that is at once; after a delay it may come behind what waits with its
   * priority. @returns false where it was not out under this token
   */
  putBack(job: HandedOut, delayMs: number): Promise<boolean>;
  /** The job is over, or not wanted any more. @param job.token null: nobody has it out */
  remove(job: { jobId: number; token: string | null }): Promise<void>;
  /** The job is over and was not done: it is kept with the reason, for an operator to look at. */
  bury(job: HandedOut, reason: string): Promise<void>;
  /** A job that is delayed is due now. */
  hasten(jobId: number): Promise<void>;
  /** The jobs that it has of these. */
  find(jobIds: readonly number[]): Promise<EngineJob[]>;
  /** Pages through all jobs that are not finished. @param after null, and then what came with the last page */
  page(after: string | null, limit: number): Promise<{ jobs: EngineJob[]; next: string | null }>;
  /** Does this while no other process does; null where one does already. */
  alone<T>(work: () => Promise<T>): Promise<T | null>;
  close(): Promise<void>;
}
