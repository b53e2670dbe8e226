/** A worker's right to one job, until it stops renewing. The token fences: a lease that was taken away writes nothing. */
export interface Lease {
  jobId: number;
  mediaId: string;
  /** Unique to this claim. */
  token: string;
  /** 1 for the first attempt. */
  attempt: number;
}

/** A lease as others see it: `beat` grows with every renewal, so that age is told by the reader's own clock. */
export interface HeldLease {
  token: string;
  worker: string;
  mediaId: string;
  beat: number;
}

/** A worker process that has announced itself. */
export interface WorkerRecord {
  id: string;
  pid: number;
  concurrency: number;
  beat: number;
}

export interface QueueCounts {
  queued: number;
  running: number;
  /** Age of the oldest job that is due and not claimed, in milliseconds; 0 where there is none. */
  oldestDueMs: number;
}

/** Attempts after which a medium is `failed`, and leases lost with their worker after which it is, too. */
export const MAX_ATTEMPTS = 3;
export const MAX_LOST_LEASES = 10;

/**
 * The queue of media to process. Jobs are at-least-once; a job is inserted by `MediaRepository.accept` and removed by
 * `publish` and `fail`, each in one transaction with its medium.
 */
export interface JobQueue {
  /** The most urgent job that is due, oldest first within a priority, or null. */
  claim(worker: string): Promise<Lease | null>;
  /** Tells that the lease's holder lives. False: the lease was taken away; stop working on it. */
  renew(lease: Lease): Promise<boolean>;
  /** Gives a job back: at once and uncounted (`released`, on shutdown) or counted, after `delayMs` (`retry`). */
  giveBack(lease: Lease, as: { kind: 'released' } | { kind: 'retry'; delayMs: number; reason: string }): Promise<void>;
  /** Leases as they stand. */
  held(): Promise<HeldLease[]>;
  /**
   * Takes a lease away because its holder is gone: the job is due again, or its medium `failed` after
   * {@link MAX_LOST_LEASES}. `counted: false` where the whole service died and no job is to blame.
   * @returns whether the lease still stood
   */
  reclaim(token: string, options: { counted: boolean }): Promise<boolean>;
  counts(): Promise<QueueCounts>;
  /** Announces a worker, and then that it lives. */
  workerBeat(worker: { id: string; pid: number; concurrency: number }): Promise<void>;
  workerGone(id: string): Promise<void>;
  workers(): Promise<WorkerRecord[]>;
}
