import type { FetchStatus, MediaFailure } from '@mds/contract';
import type { NoteSilence, WatchedLease } from '../heartbeats/lease-watch.ts';

/** A file on its way in from a URL. Instants are milliseconds since the epoch. */
export interface FetchRecord {
  id: string;
  projectId: string;
  createdAtMs: number;
  updatedAtMs: number;
  /** Whole while it is needed; without its query once the fetch is over. */
  sourceUrl: string;
  filename: string | null;
  duplicate: 'existing' | 'allow';
  idempotencyKey: string | null;
  status: FetchStatus;
  /** Bytes that are synced to disk. */
  receivedBytes: number;
  /** As the source says; null where it does not say. */
  totalBytes: number | null;
  /** Strong validator of what was received, for `If-Range`; null where the source gave none. */
  validator: string | null;
  attempts: number;
  /** Attempts since the last one that brought the fetch further, this one included. */
  fruitlessAttempts: number;
  /** Time that all attempts took, in milliseconds. */
  spentMs: number;
  mediaId: string | null;
  /** Whether the media object is new; null until there is one. */
  mediaCreated: boolean | null;
  failure: MediaFailure | null;
}

/** A fetch that is asked for. */
export type NewFetch = Pick<
  FetchRecord,
  'id' | 'projectId' | 'createdAtMs' | 'sourceUrl' | 'filename' | 'duplicate' | 'idempotencyKey'
> & {
  /** Hash of what was asked for, by which a repetition of the request is known. */
  requestSha256: string;
};

/** The right to work on a fetch, until its holder stops beating. The token fences: a lease that was taken away writes nothing. */
export interface FetchLease {
  fetch: FetchRecord;
  /** Unique to this claim. */
  token: string;
}

/** How far an attempt is. */
export interface FetchProgress {
  receivedBytes: number;
  totalBytes: number | null;
  validator: string | null;
  /** Time since the last beat, in milliseconds of a monotonic clock. */
  spentMs: number;
  /** The fetch has come further than before the attempt, and can go on from there. */
  fruitful: boolean;
}

/** How a fetch ends. */
export type FetchEnd =
  | { status: 'done'; mediaId: string; mediaCreated: boolean; receivedBytes: number }
  | { status: 'failed'; failure: MediaFailure };

/** What became of asking for a fetch. `other`: its Idempotency-Key was used for another request. */
export type FetchAdmission =
  | { outcome: 'created' | 'repeated'; fetch: FetchRecord }
  | { outcome: 'full' }
  | { outcome: 'other'; fetchId: string };

/** Fetches that are over and kept, a project. */
export const KEPT_FETCHES = 10_000;

/** The fetches: a queue, and what became of each. */
export interface FetchRepository {
  /** Adds a fetch, unless `maxWaiting` of its project are under way already or its Idempotency-Key is known. */
  add(fetch: NewFetch, options: { maxWaiting: number }): Promise<FetchAdmission>;
  find(id: string): Promise<FetchRecord | null>;
  findByIdempotencyKey(projectId: string, key: string): Promise<FetchRecord | null>;
  /** Newest first. @param before the id that the page starts after */
  page(query: {
    projectId: string;
    limit: number;
    before: string | null;
    status?: FetchRecord['status'];
  }): Promise<FetchRecord[]>;
  /** Ids of those that are not over. */
  unfinished(): Promise<string[]>;
  /** The fetch that has been due for longest becomes `fetching`; null where none is due. */
  claim(): Promise<FetchLease | null>;
  /** Tells that the holder lives, and how far it is. False: the lease was taken away; stop. */
  beat(lease: FetchLease, progress: FetchProgress): Promise<boolean>;
  /** From now on it cannot be canceled, while the lease stands. False: the lease was taken away; stop. */
  beginAccepting(lease: FetchLease): Promise<boolean>;
  /**
   * Gives a fetch back: at once and uncounted (`released`, on shutdown), or after `delayMs` with what went wrong. `fruitless: false`: the
   * attempt is not counted among those that brought it no further.
   * @returns false where the lease was taken away
   */
  giveBack(
    lease: FetchLease,
    as: { kind: 'released' } | { kind: 'retry'; delayMs: number; failure: MediaFailure; fruitless?: boolean },
  ): Promise<boolean>;
  /** Ends a fetch, takes secrets out of its URL, and forgets the oldest beyond {@link KEPT_FETCHES}. False: the lease was taken away. */
  end(lease: FetchLease, end: FetchEnd): Promise<boolean>;
  /** `queued | fetching -> canceled`. False where it is over, or being accepted. */
  cancel(id: string): Promise<boolean>;
  /** Leases as they stand. */
  held(): Promise<WatchedLease[]>;
  noteSilence: NoteSilence;
  /** Takes a lease away because its holder is gone: the fetch is due again. */
  reclaim(token: string): Promise<boolean>;
}
