import type { MediaDetail } from '@mds/contract';

/** A file of the load and its state. */
export interface Entry {
  /** SHA-256 of the file's bytes. */
  readonly sha256: string;
  readonly how: 'request' | 'resumable' | 'fetch';
  readonly kind: 'image' | 'video';
  /** Once the service has named the media object. */
  mediaId: string | null;
  /** Id of the fetch that was promised with 202. */
  fetchId: string | null;
  /** The service has acknowledged it: from now on it must not be lost. */
  isAcknowledged: boolean;
  /** Its deletion has begun: nothing is expected of it. */
  isLeaving: boolean;
  /** Monotonic time at which its deletion was answered; null if it was not. */
  deletedAtMs: number | null;
  /** A node died during its deletion: it may still be there. */
  isCut: boolean;
  /** Monotonic time at which it was first seen ready. */
  readyAtMs: number | null;
  /** Paths of its renditions once it is ready. */
  paths: readonly string[];
}

/** The record of everything that the service acknowledged to the load. */
export interface Ledger {
  readonly entries: readonly Entry[];
  begin(file: Pick<Entry, 'sha256' | 'how' | 'kind'>): Entry;
  /** @throws if two files have become one media object, or one file two */
  acknowledge(entry: Entry, mediaId: string): void;
  /** Acknowledged files without a deletion. */
  kept(): Entry[];
  /** Those that were not seen ready yet. */
  pending(): Entry[];
  /** Those that have been ready for so long. */
  readyFor(ms: number): Entry[];
  deletedFor(ms: number): Entry[];
  byMedia(mediaId: string): Entry | undefined;
}

export function createLedger(): Ledger {
  const entries: Entry[] = [];
  const media = new Map<string, Entry>();
  const kept = () => entries.filter(({ isAcknowledged, isLeaving }) => isAcknowledged && !isLeaving);
  const since = (atMs: number | null, ms: number) => atMs !== null && performance.now() - atMs >= ms;
  return {
    entries,
    begin(file) {
      const entry: Entry = {
        ...file,
        ...{ mediaId: null, fetchId: null, isAcknowledged: false, isLeaving: false, isCut: false },
        ...{ deletedAtMs: null, readyAtMs: null, paths: [] },
      };
      entries.push(entry);
      return entry;
    },
    acknowledge(entry, mediaId) {
      const before = media.get(mediaId);
      if (before !== undefined && before !== entry) throw new Error(`two files have become ${mediaId}`);
      if (entry.mediaId !== null && entry.mediaId !== mediaId) {
        throw new Error(`one file has become ${entry.mediaId} and ${mediaId}`);
      }
      media.set(mediaId, entry);
      entry.mediaId = mediaId;
      entry.isAcknowledged = true;
    },
    kept,
    pending: () => kept().filter(({ readyAtMs }) => readyAtMs === null),
    readyFor: (ms) => kept().filter(({ readyAtMs }) => since(readyAtMs, ms)),
    deletedFor: (ms) => entries.filter(({ deletedAtMs }) => since(deletedAtMs, ms)),
    byMedia: (mediaId) => media.get(mediaId),
  };
}

/** Records the detail of a media object. @returns what is wrong with it, or null */
export function noteDetail(entry: Entry, { status, error, sha256, renditions }: MediaDetail): string | null {
  if (sha256 !== entry.sha256) return `${entry.mediaId} has SHA-256 ${sha256} instead of ${entry.sha256}`;
  if (status === 'failed') return `${entry.mediaId} failed: ${error?.code}, ${error?.message}`;
  if (status !== 'ready') return entry.readyAtMs === null ? null : `${entry.mediaId} was ready and is ${status}`;
  const others = renditions.filter(({ state }) => state !== 'ready' && state !== 'skipped');
  if (others.length > 0) {
    return `${entry.mediaId} is ready with ${others.map(({ name, state }) => `${name} ${state}`).join(', ')}`;
  }
  entry.paths = renditions.flatMap(({ state, url }) => (state === 'ready' ? [new URL(url).pathname] : []));
  entry.readyAtMs ??= performance.now();
  return null;
}
