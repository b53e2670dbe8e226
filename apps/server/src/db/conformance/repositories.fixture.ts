import { createHash } from 'node:crypto';
import { ulid } from 'ulid';
import { afterEach, beforeEach } from 'vitest';
import type { Lease } from '../job-queue.ts';
import type { MediaRecord, NewMedia, NewRendition, ProcessingResult, RenditionRecord } from '../media-repository.ts';
import type { Repositories } from '../repositories.ts';

/** Accept options: the same bytes or the same key return the existing media object. */
export const EXISTING = { duplicate: 'existing', idempotencyKey: null } as const;
/** Accept options: the same bytes become another media object. */
export const ALLOW = { duplicate: 'allow', idempotencyKey: null } as const;

export const crash = { code: 'engine_crashed', message: 'It crashed.', retryable: true };
export const failure = { code: 'corrupt_media', message: 'It is damaged.', retryable: false };

/** A planned rendition, `thumb.webp`. */
export const row = (overrides: Partial<NewRendition> = {}): NewRendition => ({
  name: 'thumb',
  extension: 'webp',
  contentType: 'image/webp',
  revision: '0000000a',
  current: true,
  state: 'pending',
  reason: null,
  objectKey: 'renditions/thumb.0000000a.webp',
  sha256: null,
  bytes: null,
  files: null,
  width: null,
  height: null,
  ...overrides,
});

/** The same rendition, ready. */
export const ready = (overrides: Partial<NewRendition> = {}) =>
  row({ state: 'ready', sha256: 'f'.repeat(64), bytes: 10, files: 1, width: 320, height: 240, ...overrides });

/** The result of a run that made these renditions. */
export const result = (...renditions: NewRendition[]): ProcessingResult => ({
  renditions,
  thumbhash: 'aGFzaA==',
  warnings: ['Recovered.'],
});

/** The repositories under test, with helpers that fill them. */
export interface RepositoriesFixture {
  /** The repositories of the running test, which begins with an empty database. */
  readonly repositories: Repositories;
  /** Advances the clock of the fixture. @returns its new time, in milliseconds since the epoch */
  tick(ms: number): number;
  /** A media object, one second younger than the last one. The same `content` means the same bytes. */
  newMedia(content: string, overrides?: Partial<NewMedia>): NewMedia;
  accept(content: string, overrides?: Partial<NewMedia>): Promise<MediaRecord>;
  claim(): Promise<Lease>;
  /** Claims jobs until that media object is claimed. */
  claimFor(mediaId: string): Promise<Lease>;
  /** The rendition that the path `thumb.webp` names. */
  thumbOf(mediaId: string, revision?: string | null): Promise<RenditionRecord | null>;
}

/**
 * Opens repositories before each test of the suite that it is called in, and closes them after it.
 * @param open opens repositories over an empty database
 */
export function repositoriesFixture(open: () => Promise<Repositories>): RepositoriesFixture {
  let opened: Repositories;
  let clockMs: number;
  beforeEach(async () => {
    opened = await open();
    clockMs = Date.UTC(2026, 0, 31, 8, 15);
  });
  afterEach(() => opened.close());

  // Tests are defined before the repositories are open. These getters return the open ones when the tests run.
  const repositories: Repositories = {
    get shared() {
      return opened.shared;
    },
    get media() {
      return opened.media;
    },
    get projects() {
      return opened.projects;
    },
    get assets() {
      return opened.assets;
    },
    get regions() {
      return opened.regions;
    },
    get pieceDigests() {
      return opened.pieceDigests;
    },
    get deployment() {
      return opened.deployment;
    },
    get contentRemovals() {
      return opened.contentRemovals;
    },
    get formatProofs() {
      return opened.formatProofs;
    },
    get jobs() {
      return opened.jobs;
    },
    get fetches() {
      return opened.fetches;
    },
    get events() {
      return opened.events;
    },
    get uploads() {
      return opened.uploads;
    },
    get waitMs() {
      return opened.waitMs;
    },
    get versions() {
      return opened.versions;
    },
    probe: () => opened.probe(),
    close: () => opened.close(),
  };

  const tick = (ms: number) => {
    clockMs += ms;
    return clockMs;
  };
  const newMedia = (content: string, overrides: Partial<NewMedia> = {}): NewMedia => ({
    id: `med_${ulid(tick(1000)).toLowerCase()}`,
    projectId: 'default',
    createdAtMs: clockMs,
    contentType: 'image/png',
    bytes: 70,
    width: 640,
    height: 480,
    filename: 'picture ☃.png',
    sha256: createHash('sha256').update(content).digest('hex'),
    kind: 'image',
    format: 'png',
    durationMs: null,
    codecs: ['png'],
    warnings: ['The file has a strange end.'],
    identified: { kind: 'image', nested: { icc: true } },
    ...overrides,
  });
  const accept = async (content: string, overrides: Partial<NewMedia> = {}) => {
    const { media } = await repositories.media.accept(newMedia(content, overrides), EXISTING);
    return media;
  };
  const claim = async (): Promise<Lease> => {
    const lease = await repositories.jobs.claim('worker-1');
    if (lease === null) throw new Error('There is nothing to claim.');
    return lease;
  };
  const claimFor = async (mediaId: string): Promise<Lease> => {
    for (;;) {
      const lease = await claim();
      if (lease.mediaId === mediaId) return lease;
    }
  };
  const thumbOf = (mediaId: string, revision: string | null = null) =>
    repositories.media.findRendition({ mediaId, name: 'thumb', extension: 'webp', revision });

  return { repositories, tick, newMedia, accept, claim, claimFor, thumbOf };
}
