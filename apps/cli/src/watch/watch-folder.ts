import { codeOf, inspectPath, reasonOf } from '../ingest/walk-folder.ts';
import { createDeferredFiles } from './deferred-files.ts';
import { createFolderScan, type FolderScanOptions } from './folder-scan.ts';
import { createSettling } from './settling.ts';

/** How to watch. */
export interface FolderWatchOptions extends FolderScanOptions {
  settleMs: number;
  /** The folder itself cannot be read. Called once until it is back. */
  onMissing(why: string): void;
  onBack(): void;
}

/** A watched folder. */
export interface FolderWatch {
  /**
   * Watches until the signal aborts.
   * @param once end as soon as every file that is there has settled and been released
   * @throws only with `once`: the reason why the folder cannot be read
   */
  run(once: boolean, signal: AbortSignal): Promise<void>;
  /** The file is done, or must be inspected again. */
  release(path: string): void;
  /**
   * The file cannot be processed now. It is tried again when it changes, or after a while.
   * @returns whether the reason is new
   */
  defer(path: string, why: string): Promise<boolean>;
  /** The number of files that have not settled. */
  readonly settling: number;
  /** The number of files that were found and are not done, without the deferred ones. */
  readonly remaining: number;
  /** Whether {@link remaining} counts all of them: only so many are held at once. */
  readonly complete: boolean;
}

/** Time between checks whether the folder is there. No event reports an unmounted share or a moved parent folder. */
const PRESENCE_MS = 5_000;
/** The same while the folder is missing. */
const MISSING_MS = 2_000;
/** Events come in bursts. They are collected for this time and handled together. */
const GATHER_MS = 50;

/** Makes a {@link FolderWatch}. */
export function createFolderWatch(options: FolderWatchOptions): FolderWatch {
  const { folder } = options;
  const settling = createSettling(options.settleMs);
  const deferred = createDeferredFiles();
  let wake: (() => void) | null = null;
  let missing = false;
  let presenceDueMs = 0;
  const scan = createFolderScan(options, {
    ...{ settling, deferred },
    onHint: () => void setTimeout(() => wake?.(), GATHER_MS),
  });

  const update = async (once: boolean, signal: AbortSignal) => {
    try {
      await scan.scanAll(missing, signal);
      if (missing) options.onBack();
      missing = false;
      await scan.scanChanges(signal);
      presenceDueMs = performance.now() + PRESENCE_MS;
    } catch (error) {
      if (once) throw error;
      if (!missing) options.onMissing(reasonOf(error, folder));
      missing = true;
      presenceDueMs = performance.now() + MISSING_MS;
    }
    scan.resumeIfRoom();
  };
  const sleep = (signal: AbortSignal): Promise<void> =>
    new Promise((resolve) => {
      const { dueMs } = scan;
      const nextMs = missing ? presenceDueMs : Math.min(presenceDueMs, dueMs, settling.nextMs() ?? dueMs);
      const done = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', done);
        wake = null;
        resolve();
      };
      const delayMs = scan.hasHints && !missing ? GATHER_MS : nextMs - performance.now();
      const timer = setTimeout(done, Math.max(0, delayMs));
      signal.addEventListener('abort', done, { once: true });
      wake = done;
    });

  return {
    async run(once, signal) {
      try {
        while (!signal.aborted) {
          await update(once, signal);
          if (once && scan.isDone) return;
          if (!signal.aborted) await sleep(signal);
        }
      } finally {
        scan.stop();
      }
    },
    release(path) {
      settling.drop(path);
      deferred.forget(path);
      scan.addHint(path);
      wake?.();
    },
    async defer(path, why) {
      const found = await inspectPath(path);
      settling.drop(path);
      wake?.();
      if (found.kind === 'unreadable' && codeOf(found.error) === 'ENOENT') return false;
      return deferred.add(path, 'stats' in found ? found.stats : null, why, performance.now());
    },
    get settling() {
      return settling.settling;
    },
    get remaining() {
      return settling.size;
    },
    get complete() {
      return scan.isComplete;
    },
  };
}
