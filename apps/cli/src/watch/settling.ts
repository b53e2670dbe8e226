import type { Stats } from 'node:fs';
import { isVersion } from '../ingest/file-content.ts';
import type { FileVersion } from '../journal/journal.ts';

/** The attributes that change while somebody writes to a file. */
export type FileSign = Pick<Stats, 'size' | 'mtimeMs' | 'ctimeMs' | 'birthtimeMs' | 'ino'>;

/** A file that was found and is not done. */
export interface Candidate {
  path: string;
  version: FileVersion;
  /** Found through a symbolic link. Its target is never moved or deleted. */
  link: boolean;
  state: 'settling' | 'settled';
}

/**
 * Decides when a file is complete. No event reports that a writer is done. A file counts as complete when its size and times have
 * been unchanged for a while by this process's clock; the clock of a share is never compared. A renamed file is complete at once.
 */
export interface Settling {
  /**
   * Records the current state of a file.
   * @param nowMs monotonic
   * @param announced whether the system just reported that the name is new
   * @returns the candidate; null if there is no room for it
   */
  see(file: { path: string; stats: FileSign; link: boolean }, nowMs: number, announced: boolean): Candidate | null;
  /** Records a file under a temporary name, to recognise it after its rename. */
  seeTemporary(stats: FileSign): void;
  get(path: string): Candidate | undefined;
  drop(path: string): void;
  /** Files whose settling time is over and that must be checked again. */
  due(nowMs: number): string[];
  /** When the next check is due; null if no file is settling. */
  nextMs(): number | null;
  /** The number of candidates. */
  readonly size: number;
  /** The number of candidates that have not settled. */
  readonly settling: number;
  /** Whether there is no room for more. Files that find no room must be offered again later. */
  readonly full: boolean;
  /** Whether at least half of the room is free. */
  readonly hasRoom: boolean;
}

interface Watched extends Candidate {
  ctimeMs: number;
  sinceMs: number;
}

/** At most this many files are held, however many there are. */
const MAX_CANDIDATES = 5_000;
const MAX_TEMPORARY = 5_000;

/** @param settleMs how long a file must be unchanged */
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
      // Drops the oldest: a Set keeps the order of insertion.
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
 * Whether a file was renamed to its new name: then it was created and last written well before its inode changed. All three times
 * come from the clock of the file system. Without birth times a file system reports zero, or the time of the last change. Then
 * nothing is known, and the file has to settle like others.
 */
function wasMovedHere({ birthtimeMs, mtimeMs, ctimeMs }: FileSign, settleMs: number): boolean {
  return birthtimeMs > 0 && ctimeMs - birthtimeMs >= settleMs && ctimeMs - mtimeMs >= settleMs;
}
