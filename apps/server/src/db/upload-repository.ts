import type { MediaFailureRecord } from './media-repository.ts';

/**
 * Where an upload stands. `open`: bytes may come, or are all there and not accepted yet. The others are over: `accepted` as a media object,
 * `rejected` for what it is, `terminated` by its sender, `expired` for want of bytes.
 */
export type UploadState = 'open' | 'accepted' | 'rejected' | 'terminated' | 'expired';

/** A resumable upload. How much of it is there only its file says. Instants are milliseconds since the epoch. */
export interface UploadRecord {
  id: string;
  projectId: string;
  /** SHA-256 of the token that created it, by which open uploads are counted. */
  tokenSha256: string;
  createdAtMs: number;
  /** Slides with every byte while it is open; from then on, when it is forgotten. */
  expiresAtMs: number;
  /** As the client sent it, to be sent back. */
  metadata: Record<string, string | null> | null;
  filename: string | null;
  duplicate: 'existing' | 'allow';
  idempotencyKey: string | null;
  /** SHA-256 that the client announced, in hexadecimal digits. */
  expectedSha256: string | null;
  /** Size in bytes; null while the client has not said. */
  length: number | null;
  state: UploadState;
  mediaId: string | null;
  /** Whether the media object was made by this upload; null unless `accepted`. */
  mediaCreated: boolean | null;
  /** Why it was rejected. */
  failure: Pick<MediaFailureRecord, 'code' | 'message'> | null;
}

export type NewUpload = Omit<UploadRecord, 'state' | 'mediaId' | 'mediaCreated' | 'failure'>;

/** How an upload ended. */
export type UploadOutcome =
  | { state: 'accepted'; mediaId: string; mediaCreated: boolean }
  | { state: 'rejected'; failure: NonNullable<UploadRecord['failure']> }
  | { state: 'terminated' | 'expired' };

/** Who holds the lock of an upload: a name that no two processes share, and a number that grows while it lives. */
export interface UploadLockHolder {
  holder: string;
  beat: number;
}

/** Resumable uploads, and the lock that each has: one holder at a time, over all processes. Null where nothing is found. */
export interface UploadRepository {
  /** False where the token has `maxOpen` uploads open already; then nothing was written. */
  create(upload: NewUpload, options: { maxOpen: number }): Promise<boolean>;
  find(id: string): Promise<UploadRecord | null>;
  /** Sets the length of an open upload that has none yet. False where there is nothing of the kind. */
  declareLength(id: string, length: number): Promise<boolean>;
  /** Slides the expiry of an open upload. */
  postpone(id: string, expiresAtMs: number): Promise<void>;
  /** Ends an open upload; its row stays until `expiresAtMs`. False where it is over already. */
  finish(id: string, outcome: UploadOutcome, expiresAtMs: number): Promise<boolean>;
  /** Open uploads in the order of creation, from behind an id. */
  open(query: { after: string | null; limit: number }): Promise<UploadRecord[]>;
  countOpen(): Promise<number>;
  /** Open uploads whose time is over, the longest overdue first. */
  overdue(nowMs: number, limit: number): Promise<UploadRecord[]>;
  /** Removes the rows of uploads that are over and were to be kept until then. @returns how many */
  forget(nowMs: number): Promise<number>;

  /** Takes the lock where nobody holds it. Null: it is taken; else who holds it, `undefined` where there is no such upload. */
  lock(id: string, holder: string): Promise<UploadLockHolder | null | undefined>;
  /** Takes the lock from a holder that is dead: one whose beat is still the given one. */
  takeLock(id: string, from: UploadLockHolder, holder: string): Promise<boolean>;
  /** Asks whoever holds the lock to let go of it. */
  requestRelease(id: string): Promise<void>;
  /** Ids of the uploads whose locks a holder has and is asked to let go of. */
  releaseRequested(holder: string): Promise<string[]>;
  /** Shows that a holder lives. @returns ids of the uploads whose locks it has */
  beat(holder: string): Promise<string[]>;
  unlock(id: string, holder: string): Promise<void>;
  /** Frees every lock: for the start of the one process that owns the data folder. */
  unlockAll(): Promise<void>;
}
