import type { Stats } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename, relative } from 'node:path';
import { type Found, inspectPath, reasonOf, walkFolder } from '../ingest/walk-folder.ts';
import type { Journal } from '../journal/journal.ts';
import type { DeferredFiles } from './deferred-files.ts';
import { isHiddenByMds, restoreName } from './done-action.ts';
import { createFolderEvents } from './folder-events.ts';
import type { Candidate, Settling } from './settling.ts';
import { isTemporaryName } from './temporary-name.ts';

/** The folder to scan, and the receivers of its reports. */
export interface FolderScanOptions {
  /** Absolute. */
  folder: string;
  /** Milliseconds between two full scans; null if the system's file events make frequent scans unnecessary. */
  pollMs: number | null;
  /** Paths in the folder to ignore: the destinations of moved files. */
  leaveOut: readonly string[];
  journal: Pick<Journal, 'find'>;
  /** Whether {@link onSettled} also gets files that the journal records as accepted. */
  reportAccepted: boolean;
  /**
   * A file has settled. Called once for each file, until the file is released.
   * @param shown its path relative to the folder
   * @param accepted whether the journal records that the service has it
   */
  onSettled(file: Candidate, shown: string, accepted: boolean): void;
  /** Something in the folder cannot be inspected. */
  onUnreadable(shown: string, why: string): void;
  /** The system can watch no more folders, so full scans become more frequent. */
  onNoEvents(): void;
}

/** State that a scan shares with the watch that runs it. */
export interface FolderScanState {
  settling: Settling;
  deferred: DeferredFiles;
  /** Called when the system reports a change. */
  onHint(): void;
}

/** Finds files to ingest in a watched folder. */
export interface FolderScan {
  /**
   * Scans the whole folder if that is due, or if another folder has replaced it.
   * @param force scan even if neither is true
   * @throws the reason why the folder cannot be read
   */
  scanAll(force: boolean, signal: AbortSignal): Promise<void>;
  /** Inspects the paths that were hinted at, and the files whose settling time is over. */
  scanChanges(signal: AbortSignal): Promise<void>;
  /** Has a path inspected again by the next {@link scanChanges}. */
  addHint(path: string): void;
  /** Moves a full scan up if an earlier one ended for want of room and there is room again. */
  resumeIfRoom(): void;
  /** Whether a full scan has found everything, and nothing is left to inspect. */
  readonly isDone: boolean;
  readonly hasHints: boolean;
  /** Whether the latest full scan reached its end. */
  readonly isComplete: boolean;
  /** When the next full scan is due, in monotonic milliseconds. */
  readonly dueMs: number;
  /** Stops listening to file events. */
  stop(): void;
}

/** Time between full scans while the system reports changes, and while it does not. */
const RESCAN_MS = 30_000;
const BLIND_RESCAN_MS = 5_000;
/** Full scans take at most this share of the time. */
const SCAN_SHARE = 0.1;
/** More hints than this are replaced by a full scan. */
const MAX_HINTS = 5_000;

/** Makes a {@link FolderScan}. Only the content of the folder counts; events only trigger inspections. */
export function createFolderScan(
  options: FolderScanOptions,
  { settling, deferred, onHint }: FolderScanState,
): FolderScan {
  const { folder, pollMs, journal } = options;
  /** Paths to inspect, and whether their names are new. */
  const hints = new Map<string, boolean>();
  const leftOut = new Set(options.leaveOut);
  let intervalMs = pollMs ?? RESCAN_MS;
  let dueMs = 0;
  let scanned = false;
  /** Whether the latest full scan ended early, for want of room. */
  let unfinished = false;
  /** Identifies the folder that the latest full scan read. */
  let identity = '';

  const events = createFolderEvents({
    enabled: pollMs === null,
    onChange(path, isNew) {
      if (hints.size >= MAX_HINTS) dueMs = 0;
      else hints.set(path, isNew || hints.get(path) === true);
      onHint();
    },
    onExhausted() {
      intervalMs = BLIND_RESCAN_MS;
      options.onNoEvents();
    },
  });

  const reportUnreadable = ({ path, error }: Found & { kind: 'unreadable' }) => {
    const why = reasonOf(error, path);
    if (deferred.add(path, null, why, performance.now())) options.onUnreadable(relative(folder, path), why);
  };
  /** Updates the candidate at a path, or drops it if the path holds none any more. */
  const updateCandidate = (found: Found, isNew: boolean) => {
    if (found.kind !== 'file' || !updateFile(found, isNew)) settling.drop(found.path);
  };
  const updateFile = ({ path, stats, link }: Found & { kind: 'file' }, isNew: boolean): boolean => {
    const known = settling.get(path);
    if (known?.state === 'settled') return true;
    if (isTemporaryName(basename(path))) {
      settling.seeTemporary(stats);
      return false;
    }
    const shown = relative(folder, path);
    const entry = journal.find(shown, { bytes: stats.size, mtimeMs: stats.mtimeMs });
    const accepted = entry?.state === 'accepted';
    // A link is never moved or deleted: its target belongs to somebody else.
    if (entry && !(accepted && options.reportAccepted && !link)) return false;
    if (deferred.isDeferred(path, stats, performance.now())) return false;
    const file = settling.see({ path, stats, link }, performance.now(), isNew);
    if (file?.state === 'settled') options.onSettled(file, shown, accepted);
    return file !== null;
  };
  /** Restores files that an earlier run hid before it died. Later scans must not: they would find this run's own. */
  const restoreHidden = async (path: string) => {
    if (!scanned && isHiddenByMds(path)) await restoreName(path);
  };
  /** Inspects a new folder and everything that is already in it. */
  const scanNewFolder = async (path: string) => {
    for await (const found of walkFolder(path, { skip: (it) => leftOut.has(it) })) {
      if (found.kind === 'folder') events.listen(found.path, found.stats);
      else if (found.kind === 'unreadable') reportUnreadable(found);
      else updateCandidate(found, false);
    }
  };
  const scanFolder = async (signal: AbortSignal) => {
    const startMs = performance.now();
    unfinished = false;
    const stats = await stat(folder);
    identity = identityOf(stats);
    events.listen(folder, stats);
    for await (const found of walkFolder(folder, { skip: (path) => leftOut.has(path), onHidden: restoreHidden })) {
      if (signal.aborted) return;
      if (found.kind === 'unreadable' && found.path === folder) throw found.error;
      if (found.kind === 'unreadable') reportUnreadable(found);
      else if (found.kind === 'folder') events.listen(found.path, found.stats);
      else updateCandidate(found, false);
      unfinished = settling.full;
      if (unfinished) break;
    }
    if (!unfinished) events.sweep();
    scanned = true;
    const endMs = performance.now();
    dueMs = endMs + Math.max(intervalMs, (endMs - startMs) / SCAN_SHARE);
  };
  const scanHints = async (signal: AbortSignal) => {
    const pending = [...hints];
    hints.clear();
    for (const [path, isNew] of pending) {
      if (signal.aborted) return;
      if (leftOut.has(path)) continue;
      const found = await inspectPath(path);
      if (found.kind !== 'folder') updateCandidate(found, isNew);
      else if (!basename(path).startsWith('.') && events.listen(path, found.stats)) await scanNewFolder(path);
    }
  };

  return {
    async scanAll(force, signal) {
      const isAnother = identityOf(await stat(folder)) !== identity;
      if (force || isAnother || performance.now() >= dueMs) await scanFolder(signal);
    },
    async scanChanges(signal) {
      await scanHints(signal);
      for (const path of settling.due(performance.now())) {
        if (signal.aborted) return;
        updateCandidate(await inspectPath(path), false);
      }
    },
    addHint(path) {
      if (hints.size < MAX_HINTS) hints.set(path, false);
    },
    resumeIfRoom() {
      if (unfinished && settling.hasRoom) dueMs = 0;
    },
    get isDone() {
      return scanned && !unfinished && settling.size === 0 && hints.size === 0;
    },
    get hasHints() {
      return hints.size > 0;
    },
    get isComplete() {
      return !unfinished;
    },
    get dueMs() {
      return dueMs;
    },
    stop: () => events.stop(),
  };
}

function identityOf({ dev, ino }: Pick<Stats, 'dev' | 'ino'>): string {
  return `${dev}:${ino}`;
}
