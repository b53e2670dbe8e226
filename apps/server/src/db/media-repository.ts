import type { MediaKind, MediaStatus, RenditionState } from '@mds/contract';
import type { AttemptReport, Lease } from './job-queue.ts';

/** A media object as it is stored. Instants are milliseconds since the epoch. */
export interface MediaRecord {
  id: string;
  projectId: string;
  createdAtMs: number;
  contentType: string;
  bytes: number;
  /** As displayed, in pixels; 0 for audio. */
  width: number;
  height: number;
  status: MediaStatus;
  filename: string | null;
  sha256: string;
  kind: MediaKind;
  /** Id in the engine's format registry. */
  format: string;
  durationMs: number | null;
  codecs: string[];
  thumbhash: string | null;
  warnings: string[];
  /** The engine's own description of the bytes. Opaque here; its `parseIdentified` reads it. */
  identified: unknown;
  failure: MediaFailureRecord | null;
  attempts: number;
}

/** The public fields of a media object. */
export type PublicMediaRecord = Pick<
  MediaRecord,
  'id' | 'createdAtMs' | 'contentType' | 'bytes' | 'width' | 'height' | 'status'
>;

/** Why a media object failed, for its operator. */
export interface MediaFailureRecord {
  code: string;
  message: string;
  retryable: boolean;
}

/** One rendition of one media object in one preset revision. */
export interface RenditionRecord {
  mediaId: string;
  name: string;
  extension: string;
  contentType: string;
  revision: string;
  /** Whether this is the revision that paths without a revision deliver. */
  current: boolean;
  state: RenditionState;
  reason: string | null;
  /**
   * The key of the object, which exists once `ready`. Set when processing starts, so that the object is always
   * referenced. Null if skipped.
   */
  objectKey: string | null;
  sha256: string | null;
  /** The total of all its files. */
  bytes: number | null;
  /** How many files it consists of, once `ready`. `objectKey` and `sha256` are those of the first. */
  files: number | null;
  width: number | null;
  height: number | null;
  updatedAtMs: number;
}

/** One rendition as its maker knows it. */
export type NewRendition = Omit<RenditionRecord, 'mediaId' | 'updatedAtMs'>;

/** One file of a rendition that consists of several. */
export interface RenditionFileRecord {
  mediaId: string;
  name: string;
  extension: string;
  revision: string;
  /** Path below the rendition's folder: `720p/00001.m4s`. */
  file: string;
  contentType: string;
  objectKey: string;
  sha256: string;
  bytes: number;
}

/** A file as the maker of its rendition knows it. */
export type NewRenditionFile = Pick<RenditionFileRecord, 'file' | 'contentType' | 'objectKey' | 'sha256' | 'bytes'>;

/** A media object to be accepted: everything known once its bytes are identified and stored. */
export type NewMedia = Omit<MediaRecord, 'status' | 'failure' | 'attempts' | 'thumbhash'>;

/** Selects a rendition of a media object for delivery: by name, extension, and optionally revision. */
export interface RenditionSelector {
  mediaId: string;
  name: string;
  extension: string;
  /** Null: the current one. */
  revision: string | null;
}

/** The result of a run of processing. */
export interface ProcessingResult {
  renditions: NewRendition[];
  thumbhash: string | null;
  warnings: string[];
}

/** Outcome of {@link MediaRepository.accept}. */
export interface Acceptance {
  media: MediaRecord;
  /** False: the project had these bytes already, or the idempotency key had made this media object. */
  created: boolean;
}

/** Media, their renditions, and the job of each unfinished media object. Null if nothing is found. */
export interface MediaRepository {
  find(id: string): Promise<MediaRecord | null>;
  findBySha256(projectId: string, sha256: string): Promise<MediaRecord | null>;
  findByIdempotencyKey(projectId: string, key: string): Promise<MediaRecord | null>;
  /** Newest first; `before` is the id that the page starts after. */
  page(query: {
    projectId: string;
    limit: number;
    before: string | null;
    status?: MediaStatus;
  }): Promise<MediaRecord[]>;
  /** How many media of a project wait for a worker. */
  countQueued(projectId: string): Promise<number>;
  /** As `page`, but only public fields: the busiest query of all. */
  publicPage(query: { projectId: string; limit: number; before: string | null }): Promise<PublicMediaRecord[]>;
  /**
   * One transaction: the media row `queued`, its job, and the idempotency key if any. If the project has the bytes already (unless
   * `duplicate` is `allow`) or the key is taken, nothing is written, and the existing media object is returned.
   */
  accept(
    media: NewMedia,
    options: { duplicate: 'existing' | 'allow'; idempotencyKey: string | null; priority?: number },
  ): Promise<Acceptance>;
  /**
   * One transaction: `failed -> queued` with a new job. A `ready` media object with failed renditions stays `ready` and gets a job that
   * makes them. Failed renditions become `pending`. False: nothing had failed.
   */
  retry(id: string): Promise<boolean>;
  /**
   * One transaction: all renditions under these object keys, or with a file under one of them, are no longer `ready`. Their media keep
   * their states, and each gets a job that makes the renditions again.
   * @returns the ids of those media
   */
  rederive(objectKeys: string[]): Promise<string[]>;
  /**
   * One transaction: deletes row, renditions and job, and records that objects of the content must be searched for
   * (`ContentRemovalRepository`). `orphans`: object keys that nothing refers to any more.
   */
  delete(id: string): Promise<{ media: MediaRecord; orphans: string[] } | null>;

  /** `queued -> processing` under a lease, with the planned renditions as `pending` or `skipped`. False: the lease is lost. */
  start(lease: Lease, planned: NewRendition[]): Promise<boolean>;
  /**
   * Names the files that a rendition will have, before their objects are stored, so that none of them seems unreferenced. They replace
   * those that were named before, and are not delivered yet. False: the lease is lost.
   */
  reserveFiles(lease: Lease, rendition: NewRendition, files: readonly NewRenditionFile[]): Promise<boolean>;
  /** One transaction: this rendition is `ready` or `failed`, while others are still being made. False: the lease is lost. */
  publishRendition(lease: Lease, rendition: NewRendition): Promise<boolean>;
  /** One transaction: renditions, `ready`, job gone. False: the lease is lost and nothing was written. */
  publish(lease: Lease, result: ProcessingResult, report?: AttemptReport | null): Promise<boolean>;
  /** One transaction: `failed` with its reason, pending renditions `failed`, job gone. False: the lease is lost. */
  fail(lease: Lease, failure: MediaFailureRecord, report?: AttemptReport | null): Promise<boolean>;

  renditions(mediaId: string): Promise<RenditionRecord[]>;
  /** The renditions of many media at once, in no promised order. */
  renditionsOf(mediaIds: string[]): Promise<RenditionRecord[]>;
  /** The ready rendition that a delivery path names, with its media object's project. */
  findRendition(selector: RenditionSelector): Promise<RenditionRecord | null>;
  /** The file of a ready rendition that a delivery path names, and when the rendition became ready. */
  findFile(selector: {
    mediaId: string;
    name: string;
    /** Null: the current one. */
    revision: string | null;
    file: string;
  }): Promise<(RenditionFileRecord & { updatedAtMs: number }) | null>;
  /** All files of those renditions of a media object that consist of several, also of unfinished ones. */
  files(mediaId: string): Promise<RenditionFileRecord[]>;
  /** A ready rendition under this key, of any media object. Media of the same bytes share their objects. */
  findReadyObject(objectKey: string): Promise<{ rendition: RenditionRecord; files: RenditionFileRecord[] } | null>;
  /** Whether any media object refers to the object: its original, a rendition of it, or a file of one. */
  isReferenced(objectKey: string): Promise<boolean>;
  /** A number that changes with every write that a reader of media could see, by whichever process. */
  version(): Promise<number>;
}
