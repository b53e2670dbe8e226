import type { JobState, ProcessingAttempt } from '@mds/contract';
import type { ProgramRun } from '@mds/transcode';
import type { NoteSilence, WatchedLease } from '../heartbeats/lease-watch.ts';

/** A worker's right to one job, as long as it renews it. The token is a fence: a lease that was taken away writes nothing. */
export interface Lease {
  jobId: number;
  mediaId: string;
  /** Unique to this claim. */
  token: string;
  /** 1 for the first attempt; leases that were lost or released do not count. */
  attempt: number;
}

/** A lease, as other processes see it. */
export interface HeldLease extends WatchedLease {
  worker: string;
  mediaId: string;
}

/** The data that a worker process sends with every heartbeat. */
export interface WorkerAnnouncement {
  id: string;
  /** Name of its machine. */
  host: string;
  pid: number;
  /** Code of its region. */
  region: string;
  /** How many jobs it processes at once, at most. */
  concurrency: number;
  /** When it started to claim, by its wall clock: milliseconds since the epoch. */
  sinceMs: number;
}

/** A worker process that has announced itself. Null: a process of an earlier version, which does not report it. */
export interface WorkerRecord extends Omit<WorkerAnnouncement, 'host' | 'region' | 'sinceMs'> {
  host: string | null;
  region: string | null;
  sinceMs: number | null;
  beat: number;
}

export interface QueueCounts {
  queued: number;
  running: number;
  /** Age of the oldest job that is due and not claimed, in milliseconds; 0 if there is none. */
  oldestDueMs: number;
}

/** The report of one finished run of a job. */
export interface AttemptReport {
  /** Sentences about the decisions of the run. */
  notes: readonly string[];
  /** Milliseconds by step. */
  timings: Readonly<Record<string, number>>;
  /** The programs that were run. */
  runs: readonly ProgramRun[];
}

/** How a run of a job ended; `running` if it has not. */
export type AttemptOutcome = ProcessingAttempt['outcome'];

/** A run of a job. Instants are milliseconds since the epoch. */
export interface AttemptRecord {
  /** 1 for the media object's first run, and one more for each further run, counted or not. */
  attempt: number;
  worker: string;
  startedAtMs: number;
  /** Null while it runs, or if its worker died. */
  endedAtMs: number | null;
  outcome: AttemptOutcome;
  failure: { code: string; message: string; retryable: boolean } | null;
  report: AttemptReport | null;
}

/** The job of a media object, as the control API shows it. */
export interface JobView {
  jobId: number;
  mediaId: string;
  /** The lower, the sooner. */
  priority: number;
  /** The worker that has it; null: it waits. */
  worker: string | null;
  /** The number of the attempt that runs or comes next. Only attempts that count. */
  attempt: number;
  /** How many runs of the media object's jobs were started, also those that do not count: the number of the latest {@link AttemptRecord}. */
  runs: number;
  /** When the run in progress was started, milliseconds since the epoch; null if no worker runs it. */
  startedAtMs: number | null;
  /** Share of the work that is done, 0 to 1; null if no worker runs it, or if it is not known yet. */
  progress: number | null;
  /** Milliseconds until it may be claimed; 0 if it may be now. */
  dueInMs: number;
  /** When it may be claimed, milliseconds since the epoch. */
  dueAtMs: number;
  /** A sentence: why the run before it failed; null if this job had none. */
  lastReason: string | null;
}

/** A job that a worker has, of any project. */
export interface RunningJob extends JobView {
  projectId: string;
}

/** A job that a worker has, and its progress. */
export interface JobProgress {
  mediaId: string;
  projectId: string;
  progress: number;
}

/** A job, as an engine that hands jobs out sees it. */
export interface JobRecord {
  jobId: number;
  mediaId: string;
  /** The lower, the sooner. */
  priority: number;
  /** Milliseconds until it may be claimed; 0 if it may be now. */
  dueInMs: number;
  /** The token of its lease; null if it has none. */
  token: string | null;
}

/** Selects jobs. `afterId` pages through all of them in the order of their ids. */
export type JobSelection = { mediaIds: string[] } | { jobIds: number[] } | { afterId: number; limit: number };

/** How many attempts of a media object are kept. */
export const KEPT_ATTEMPTS = 10;

/** After so many attempts, or leases lost with their workers, a media object is `failed`. */
export const MAX_ATTEMPTS = 3;
export const MAX_LOST_LEASES = 10;

/**
 * The queue of media to process. Jobs are at-least-once; a job is inserted by `MediaRepository.accept` and removed by
 * `publish` and `fail`, each in one transaction with its media object.
 */
export interface JobQueue {
  /** The most urgent job that is due, oldest first within a priority, or null. */
  claim(worker: string): Promise<Lease | null>;
  /**
   * Claims this job under this token, whether or not it is due, because an engine that hands jobs out has chosen it. Null: the job is
   * gone, or has another lease.
   */
  claimJob(jobId: number, as: { worker: string; token: string }): Promise<Lease | null>;
  /** These jobs, in the order of their ids, without those that are gone. */
  records(selection: JobSelection): Promise<JobRecord[]>;
  /** Sends the holder's heartbeat. False: the lease was taken away; stop working on it. */
  renew(lease: Lease): Promise<boolean>;
  /** Whether the lease is still held. Writes nothing. */
  isHeld(lease: Lease): Promise<boolean>;
  /** Records the progress, 0 to 1. False: the lease was taken away; stop working on it. */
  progress(lease: Lease, fraction: number): Promise<boolean>;
  /**
   * Puts a job back into the queue: at once and uncounted (`released`), or counted, after `delayMs` (`retry`). It is `released` on
   * shutdown, or after a `failure` that no media object causes.
   * @param report what the attempt did
   */
  release(
    lease: Lease,
    as:
      | { kind: 'released'; failure?: NonNullable<AttemptRecord['failure']> }
      | { kind: 'retry'; delayMs: number; failure: NonNullable<AttemptRecord['failure']> },
    report?: AttemptReport | null,
  ): Promise<void>;
  /** All current leases. */
  held(): Promise<HeldLease[]>;
  noteSilence: NoteSilence;
  /**
   * Takes a lease away because its holder is gone. The job is due again, or its media object `failed` after {@link MAX_LOST_LEASES}.
   * `counted: false` if the whole service died, which no job causes.
   * @returns whether the lease still stood
   */
  reclaim(token: string, options: { counted: boolean }): Promise<boolean>;
  counts(): Promise<QueueCounts>;
  /** The jobs of these media, if they have one, in any order. */
  findJobViews(mediaIds: string[]): Promise<JobView[]>;
  /**
   * Jobs of a project in the order of their ids, which is that of acceptance.
   * @param selection.afterId the page starts after this job; null: with the oldest
   * @param selection.state only jobs in this state
   */
  page(selection: { projectId: string; limit: number; afterId: number | null; state?: JobState }): Promise<JobView[]>;
  /** The jobs that workers have, of all projects, in the order of their ids. */
  running(): Promise<RunningJob[]>;
  /** How many jobs are handed out before the media object's; null if it has none that waits. */
  ahead(mediaId: string): Promise<number | null>;
  /** The jobs in progress whose progress is known. */
  underWay(): Promise<JobProgress[]>;
  /** The latest {@link KEPT_ATTEMPTS} runs of a media object's jobs, oldest first. */
  attempts(mediaId: string): Promise<AttemptRecord[]>;
  /** Puts every unfinished media object without a job back into the queue. No order of events should leave one. */
  adoptStranded(): Promise<number>;
  /** Announces a worker, and sends its heartbeat from then on. */
  announceWorker(worker: WorkerAnnouncement): Promise<void>;
  /** Removes a worker that ends or is gone. */
  signOffWorker(id: string): Promise<void>;
  /** Workers that have announced themselves and not signed off, by id. */
  workers(): Promise<WorkerRecord[]>;
}
