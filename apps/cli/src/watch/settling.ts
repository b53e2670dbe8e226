import type { Stats } from 'node:fs';
import { isVersion } from '../ingest/file-content.ts';
import type { FileVersion } from '../journal/journal.ts';

/** What of a file tells whether somebody still writes to it. */
export type FileSign = Pick<Stats, 'size' | 'mtimeMs' | 'ctimeMs' | 'birthtimeMs' | 'ino'>;

/** A file that was seen and is not done with. */
export interface Candidate {
  path: string;
  version: FileVersion;
  /** Through a link; what it leads to is somebody else's to move. */
  link: boolean;
  state: 'settling' | 'settled';
}

/**
 * Decides when a file is whole. Nothing tells a watcher that a writer is done, but a file whose size and times stand still, as seen
 * by this process's own clock: the clock of a share is not compared with anything. What was renamed into place is whole at once.
 */
export interface Settling {
  /**
   * Notes that a file was seen.
   * @param nowMs monotonic
   * @param announced whether the system said this instant that the name is new
   * @returns what is known of it; null where there is no room for it
   */
  see(file: { path: string; stats: FileSign; link: boolean }, nowMs: number, announced: boolean): Candidate | null;
  /** Notes a file under a temporary name, to know it again when it is renamed. */
  seeTemporary(stats: FileSign): void;
  get(path: string): Candidate | undefined;
  drop(path: string): void;
  /** Files that should be looked at once more by now. */
  due(nowMs: number): string[];
  /** When the next of them should, null where there is none. */
  nextMs(): number | null;
  /** All that are not dropped. */
  readonly size: number;
  /** Those that have not settled. */
  readonly settling: number;
  /** Whether there is no room for more; what finds none is to be seen again later. */
  readonly full: boolean;
  /** Whether there is room for a good many. */
  readonly hasRoom: boolean;
}

interface Watched extends Candidate {
  ctimeMs: number;
  sinceMs: number;
}

/** So many are kept in mind at once, however many there are. */
const MAX_CANDIDATES = 5_000;
const MAX_TEMPORARY = 5_000;

/** @param settleMs how long a file has to stand still */
export function createSettling(settleMs: number): Settling {
  const files = new Map<string, Watched>();
  const waiting = new Set<Watched>();
  const temporary = new Set<number>();
  const settle = (file: Watched) => {
    file.state = 'settled';
    waiting.delete(file);
  };

  return {
    see({ path, stats, link }, nowMs, announced) {
      const version = { bytes: stats.size, mtimeMs: stats.mtimeMs };
      const known = files.get(path);
      if (known) {
        if (known.state === 'settled') return known;
        if (!isVersion(stats, known.version) || known.ctimeMs !== stats.ctimeMs) {
          Object.assign(known, { version, ctimeMs: stats.ctimeMs, sinceMs: nowMs });
        } else if (nowMs - known.sinceMs >= settleMs) {
          settle(known);
        }
        return known;
      }
      if (files.size >= MAX_CANDIDATES) return null;
      const file: Watched = { path, version, link, state: 'settling', ctimeMs: stats.ctimeMs, sinceMs: nowMs };
      files.set(path, file);
      waiting.add(file);
      const isWhole = temporary.delete(stats.ino) || (announced && wasMovedHere(stats, settleMs));
      if (isWhole || settleMs === 0) settle(file);
      return file;
    },
    seeTemporary({ ino }) {
      // The oldest goes: a Set is in the order of its entries.
      if (temporary.size >= MAX_TEMPORARY) for (const oldest of temporary) if (temporary.delete(oldest)) break;
      if (ino > 0) temporary.add(ino);
    },
    get: (path) => files.get(path),
    drop(path) {
      const file = files.get(path);
      if (file) waiting.delete(file);
      files.delete(path);
    },
    due: (nowMs) => [...waiting].filter(({ sinceMs }) => nowMs - sinceMs >= settleMs).map(({ path }) => path),
    nextMs() {
      let next: number | null = null;
      for (const { sinceMs } of waiting) next = Math.min(next ?? Number.POSITIVE_INFINITY, sinceMs + settleMs);
      return next;
    },
    get size() {
      return files.size;
    },
    get settling() {
      return waiting.size;
    },
    get full() {
      return files.size >= MAX_CANDIDATES;
    },
    get hasRoom() {
      return files.size < MAX_CANDIDATES / 2;
    },
  };
}

/**
 * Whether a name that is new stands for a file that is not: it was made and last written to well before its inode changed last,
 * which a rename does. All three times are of one clock, the file system's. One that keeps no birth time gives it as zero, or as the last
 * change: then nothing is known, and the file is waited for like others.
 */
function wasMovedHere({ birthtimeMs, mtimeMs, ctimeMs }: FileSign, settleMs: number): boolean {
  return birthtimeMs > 0 && ctimeMs - birthtimeMs >= settleMs && ctimeMs - mtimeMs >= settleMs;
}
