import type { Stats } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename, relative } from 'node:path';
import { codeOf, type Found, look, reasonOf, walkFolder } from '../ingest/walk-folder.ts';
import type { Journal } from '../journal/journal.ts';
import { giveBack, isAside } from './done-action.ts';
import { createFolderEvents } from './folder-events.ts';
import { createPutOff } from './put-off.ts';
import { type Candidate, createSettling } from './settling.ts';
import { isTemporaryName } from './temporary-name.ts';

/** How to watch. */
export interface FolderWatchOptions {
  /** Absolute. */
  folder: string;
  settleMs: number;
  /** Milliseconds between two looks at everything; null where the system's events make it enough to look now and then. */
  pollMs: number | null;
  /** Paths in the folder that are not looked at: where files are moved to. */
  leaveOut: readonly string[];
  journal: Pick<Journal, 'find'>;
  /** Whether files that the journal knows to be accepted are to be told of, too. */
  tellAccepted: boolean;
  /**
   * A file has settled; told once, until it is {@link FolderWatch.release}d.
   * @param shown its path as seen from the folder
   * @param accepted whether the journal knows that the service has it
   */
  onSettled(file: Candidate, shown: string, accepted: boolean): void;
  /** Something in the folder cannot be looked at. */
  onUnreadable(shown: string, why: string): void;
  /** The folder itself cannot, told once. */
  onMissing(why: string): void;
  onBack(): void;
  onNoEvents(): void;
}

/** A folder that is watched. */
export interface FolderWatch {
  /**
   * Watches until the signal.
   * @param once ends as soon as all that is there has settled and been released
   * @throws what keeps the folder from being read, with `once` alone
   */
  run(once: boolean, signal: AbortSignal): Promise<void>;
  /** The file is done with, or is to be looked at anew. */
  release(path: string): void;
  /**
   * The file cannot be done with now: it is released when it changes, or after a while.
   * @returns whether that is news
   */
  putOff(path: string, why: string): Promise<boolean>;
  /** Files that have not settled. */
  readonly settling: number;
  /** Files that were seen and are not done with; those that are put off are. */
  readonly remaining: number;
  /** Whether that is all of them: there is room for so many. */
  readonly complete: boolean;
}

/** Between two looks at everything, where the system tells of changes; and where it does not. */
const RESCAN_MS = 30_000;
const BLIND_RESCAN_MS = 5_000;
/** The same while the folder is not there. */
const MISSING_MS = 2_000;
/** Between two looks at whether it is there: no event tells that a share was unmounted, or a folder above moved away. */
const PRESENCE_MS = 5_000;
/** Looking at everything takes at most this share of the time. */
const SCAN_SHARE = 0.1;
/** Events come in swarms; they are seen to together. */
const GATHER_MS = 50;
/** So many hints are kept; past that, a look at everything does. */
const MAX_HINTS = 5_000;

/** Makes a {@link FolderWatch}. What stands in the folder is the truth; events only say when to look. */
export function createFolderWatch(options: FolderWatchOptions): FolderWatch {
  const { folder, settleMs, pollMs, journal } = options;
  const settling = createSettling(settleMs);
  const putOff = createPutOff();
  /** Paths to look at, and whether their name is new. */
  const hints = new Map<string, boolean>();
  const leftOut = new Set(options.leaveOut);
  let wake: (() => void) | null = null;
  let restMs = pollMs ?? RESCAN_MS;
  let scanDueMs = 0;
  let scanned = false;
  /** Whether the latest look ended early, for want of room. */
  let unfinished = false;
  let missing = false;
  let presenceDueMs = 0;
  /** The folder that stood at the path when everything was looked at. */
  let identity = '';

  const events = createFolderEvents({
    enabled: pollMs === null,
    onChange(path, isNew) {
      if (hints.size >= MAX_HINTS) scanDueMs = 0;
      else hints.set(path, isNew || hints.get(path) === true);
      setTimeout(() => wake?.(), GATHER_MS);
    },
    onExhausted() {
      restMs = BLIND_RESCAN_MS;
      options.onNoEvents();
    },
  });

  /** Considers what was found at a path; what is no candidate is none any more. */
  const consider = (found: Found, isNew: boolean) => {
    if (found.kind !== 'file' || !considerFile(found, isNew)) settling.drop(found.path);
  };
  const considerFile = ({ path, stats, link }: Found & { kind: 'file' }, isNew: boolean): boolean => {
    const known = settling.get(path);
    if (known?.state === 'settled') return true;
    if (isTemporaryName(basename(path))) {
      settling.seeTemporary(stats);
      return false;
    }
    const shown = relative(folder, path);
    const entry = journal.find(shown, { bytes: stats.size, mtimeMs: stats.mtimeMs });
    const accepted = entry?.state === 'accepted';
    // A link is kept: what it leads to is somebody else's.
    if (entry && !(accepted && options.tellAccepted && !link)) return false;
    if (putOff.holds(path, stats, performance.now())) return false;
    const file = settling.see({ path, stats, link }, performance.now(), isNew);
    if (file?.state === 'settled') options.onSettled(file, shown, accepted);
    return file !== null;
  };

  const lookAtAll = async (signal: AbortSignal) => {
    const startMs = performance.now();
    unfinished = false;
    const stats = await stat(folder);
    identity = identityOf(stats);
    events.listen(folder, stats);
    for await (const found of walkFolder(folder, { skip: (path) => leftOut.has(path), onHidden: recover })) {
      if (signal.aborted) return;
      if (found.kind === 'unreadable' && found.path === folder) throw found.error;
      if (found.kind === 'unreadable') tellUnreadable(found);
      else if (found.kind === 'folder') events.listen(found.path, found.stats);
      else consider(found, false);
      unfinished = settling.full;
      if (unfinished) break;
    }
    if (!unfinished) events.sweep();
    scanned = true;
    const endMs = performance.now();
    scanDueMs = endMs + Math.max(restMs, (endMs - startMs) / SCAN_SHARE);
  };
  const lookAtHints = async (signal: AbortSignal) => {
    const taken = [...hints];
    hints.clear();
    for (const [path, isNew] of taken) {
      if (signal.aborted) return;
      if (leftOut.has(path)) continue;
      const found = await look(path);
      if (found.kind !== 'folder') consider(found, isNew);
      else if (!basename(path).startsWith('.') && events.listen(path, found.stats)) await lookInto(path);
    }
  };
  /** A folder that is new, with all that is in it by now. */
  const lookInto = async (path: string) => {
    for await (const found of walkFolder(path, { skip: (it) => leftOut.has(it) })) {
      if (found.kind === 'folder') events.listen(found.path, found.stats);
      else if (found.kind === 'unreadable') tellUnreadable(found);
      else consider(found, false);
    }
  };
  const lookAtDue = async (signal: AbortSignal) => {
    for (const path of settling.due(performance.now())) {
      if (signal.aborted) return;
      consider(await look(path), false);
    }
  };
  const tellUnreadable = ({ path, error }: Found & { kind: 'unreadable' }) => {
    const why = reasonOf(error, path);
    if (putOff.add(path, null, why, performance.now())) options.onUnreadable(relative(folder, path), why);
  };
  /** What an earlier run took aside when it died. Not later: then it is this one that does. */
  const recover = async (path: string) => {
    if (!scanned && isAside(path)) await giveBack(path);
  };

  const lookAround = async (once: boolean, signal: AbortSignal) => {
    try {
      // One that was put in its place meanwhile is another.
      const isAnother = identityOf(await stat(folder)) !== identity;
      if (missing || isAnother || performance.now() >= scanDueMs) await lookAtAll(signal);
      if (missing) options.onBack();
      missing = false;
      await lookAtHints(signal);
      await lookAtDue(signal);
      presenceDueMs = performance.now() + PRESENCE_MS;
    } catch (error) {
      if (once) throw error;
      if (!missing) options.onMissing(reasonOf(error, folder));
      missing = true;
      presenceDueMs = performance.now() + MISSING_MS;
    }
    if (unfinished && settling.hasRoom) scanDueMs = 0;
  };
  const rest = (signal: AbortSignal): Promise<void> =>
    new Promise((resolve) => {
      const dueMs = missing ? presenceDueMs : Math.min(presenceDueMs, scanDueMs, settling.nextMs() ?? scanDueMs);
      const nextMs = dueMs - performance.now();
      const done = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', done);
        wake = null;
        resolve();
      };
      const timer = setTimeout(done, Math.max(0, hints.size > 0 && !missing ? GATHER_MS : nextMs));
      signal.addEventListener('abort', done, { once: true });
      wake = done;
    });

  return {
    async run(once, signal) {
      try {
        while (!signal.aborted) {
          await lookAround(once, signal);
          if (once && scanned && !unfinished && settling.size === 0 && hints.size === 0) return;
          if (!signal.aborted) await rest(signal);
        }
      } finally {
        events.stop();
      }
    },
    release(path) {
      settling.drop(path);
      putOff.forget(path);
      if (hints.size < MAX_HINTS) hints.set(path, false);
      wake?.();
    },
    async putOff(path, why) {
      const found = await look(path);
      settling.drop(path);
      wake?.();
      if (found.kind === 'unreadable' && codeOf(found.error) === 'ENOENT') return false;
      return putOff.add(path, 'stats' in found ? found.stats : null, why, performance.now());
    },
    get settling() {
      return settling.settling;
    },
    get remaining() {
      return settling.size;
    },
    get complete() {
      return !unfinished;
    },
  };
}

function identityOf({ dev, ino }: Pick<Stats, 'dev' | 'ino'>): string {
  return `${dev}:${ino}`;
}
