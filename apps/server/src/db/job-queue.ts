import type { JobState, ProcessingAttempt } from '@mds/contract';
import type { ProgramRun } from '@mds/transcode';
import type { NoteSilence, WatchedLease } from '../heartbeats/lease-watch.ts';

/** A worker's right to one job, until it stops renewing. The token fences: a lease that was taken away writes nothing. */
export interface Lease {
  jobId: number;
  mediaId: string;
  /** Unique to this claim. */
  token: string;
  /** 1 for the first attempt; leases that were lost or given back do not count. */
  attempt: number;
}

/** A lease as others see it. */
export interface HeldLease extends WatchedLease {
  worker: string;
  mediaId: string;
}

/** What a worker process says of itself with every beat. */
export interface WorkerAnnouncement {
  id: string;
  /** Name of its machine. */
  host: string;
  pid: number;
  /** Code of the region that it is set to. */
  region: string;
  /** Jobs that it has at once, at most. */
  concurrency: number;
  /** When it began to claim, by its wall clock: milliseconds since the epoch. */
  sinceMs: number;
}

/** A worker process that has announced itself. What is null, a process of an earlier version did not say. */
export interface WorkerRecord extends Omit<WorkerAnnouncement, 'host' | 'region' | 'sinceMs'> {
  host: string | null;
  region: string | null;
  sinceMs: number | null;
  beat: number;
}

export interface QueueCounts {
  queued: number;
  running: number;
  /** Age of the oldest job that is due and not claimed, in milliseconds; 0 where there is none. */
  oldestDueMs: number;
}

/** What a run of a job did, as far as it came. */
export interface AttemptReport {
  /** Sentences: what was decided on the way. */
  notes: readonly string[];
  /** Milliseconds by step. */
  timings: Readonly<Record<string, number>>;
  /** The programs that were run. */
  runs: readonly ProgramRun[];
}

/** How a run of a job stands, or ended. */
export type AttemptOutcome = ProcessingAttempt['outcome'];

/** A run of a job. Instants are milliseconds since the epoch. */
export interface AttemptRecord {
  /** 1 for the media object's first run, and one more for each that came, whether or not it counted. */
  attempt: number;
  worker: string;
  startedAtMs: number;
  /** Null while it runs, and where its worker died. */
  endedAtMs: number | null;
  outcome: AttemptOutcome;
  failure: { code: string; message: string; retryable: boolean } | null;
  report: AttemptReport | null;
}

/** Where the job of a media object stands. */
export interface JobStanding {
  jobId: number;
  mediaId: string;
  /** The lower, the sooner. */
  priority: number;
  /** Who works on it; null: it waits. */
  worker: string | null;
  /** The attempt that runs or comes next, of those that count. */
  attempt: number;
  /** Runs of the media object's jobs that were begun, those included that do not count: the number of the latest {@link AttemptRecord}. */
  runs: number;
  /** When the run that is under way was begun, milliseconds since the epoch; null while nobody works on it. */
  startedAtMs: number | null;
  /** Share of the work that is done, 0 to 1; null while nobody works on it, or nothing is known of it yet. */
  progress: number | null;
  /** Milliseconds until it may be claimed; 0 where it may. */
  dueInMs: number;
  /** From when on it may be claimed, milliseconds since the epoch. */
  dueAtMs: number;
  /** A sentence: why the run before it came to nothing; null where this job had none. */
  lastReason: string | null;
}

/** A job that is being worked on, of whichever project. */
export interface RunningJob extends JobStanding {
  projectId: string;
}

/** A job that is being worked on, and how far it is. */
export interface JobProgress {
  mediaId: string;
  projectId: string;
  progress: number;
}

/** A job, for an engine that hands jobs out. */
export interface JobRecord {
  jobId: number;
  mediaId: string;
  /** The lower, the sooner. */
  priority: number;
  /** Milliseconds until it may be claimed; 0 where it may. */
  dueInMs: number;
  /** Of the lease that stands; null: nobody works on it. */
  token: string | null;
}

/** Which jobs are asked for; `afterId` pages through all of them in the order of their ids. */
export type JobSelection = { mediaIds: string[] } | { jobIds: number[] } | { afterId: number; limit: number };

/** Attempts of a media object that are kept. */
export const KEPT_ATTEMPTS = 10;

/** Attempts after which a media object is `failed`, and leases lost with their worker after which it is, too. */
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
   * Claims this job under this token, whether or not it is due: an engine that hands jobs out has chosen it. Null where the job is gone,
   * or another lease of it stands.
   */
  claimJob(jobId: number, as: { worker: string; token: string }): Promise<Lease | null>;
  /** These jobs, in the order of their ids; nothing for those that are gone. */
  records(selection: JobSelection): Promise<JobRecord[]>;
  /** Tells that the lease's holder lives. False: the lease was taken away; stop working on it. */
  renew(lease: Lease): Promise<boolean>;
  /** Whether the lease stands; writes nothing. */
  stands(lease: Lease): Promise<boolean>;
  /** Notes how far the work is, 0 to 1. False: the lease was taken away; stop working on it. */
  progress(lease: Lease, fraction: number): Promise<boolean>;
  /**
   * Gives a job back: at once and uncounted (`released`), or counted, after `delayMs` (`retry`). A job is released on shutdown, or for a
   * `failure` that no media object is to blame for.
   * @param report what the attempt did
   */
  giveBack(
    lease: Lease,
    as:
      | { kind: 'released'; failure?: NonNullable<AttemptRecord['failure']> }
      | { kind: 'retry'; delayMs: number; failure: NonNullable<AttemptRecord['failure']> },
    report?: AttemptReport | null,
  ): Promise<void>;
  /** Leases as they stand. */
  held(): Promise<HeldLease[]>;
  noteSilence: NoteSilence;
  /**
   * Takes a lease away because its holder is gone: the job is due again, or its media object `failed` after
   * {@link MAX_LOST_LEASES}. `counted: false` where the whole service died and no job is to blame.
   * @returns whether the lease still stood
   */
  reclaim(token: string, options: { counted: boolean }): Promise<boolean>;
  counts(): Promise<QueueCounts>;
  /** The jobs of these media, in no promised order; nothing for those that have none. */
  standings(mediaIds: string[]): Promise<JobStanding[]>;
  /**
   * Jobs of a project in the order of their ids, which is that of acceptance.
   * @param selection.afterId of the job that the page starts after; null: with the oldest
   * @param selection.state only those in it
   */
  page(selection: {
    projectId: string;
    limit: number;
    afterId: number | null;
    state?: JobState;
  }): Promise<JobStanding[]>;
  /** The jobs of all projects that somebody works on, in the order of their ids. */
  running(): Promise<RunningJob[]>;
  /** How many jobs are handed out before the media object's; null where it has none that waits. */
  ahead(mediaId: string): Promise<number | null>;
  /** The jobs that somebody works on and has told of how far it is. */
  underWay(): Promise<JobProgress[]>;
  /** The latest {@link KEPT_ATTEMPTS} runs of a media object's jobs, oldest first. */
  attempts(mediaId: string): Promise<AttemptRecord[]>;
  /** Puts every unfinished media object that has no job, which no order of events should leave behind, back into the queue. */
  adoptStranded(): Promise<number>;
  /** Announces a worker, and then that it lives. */
  workerBeat(worker: WorkerAnnouncement): Promise<void>;
  workerGone(id: string): Promise<void>;
  /** Those who have announced themselves and not signed off, by id. */
  workers(): Promise<WorkerRecord[]>;
}
