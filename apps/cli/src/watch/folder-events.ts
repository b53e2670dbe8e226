import { type FSWatcher, type Stats, watch } from 'node:fs';
import { join } from 'node:path';
import { codeOf } from '../ingest/walk-folder.ts';

/** The system's file events. They are only hints: events get lost, and network shares have none. */
export interface FolderEvents {
  /**
   * Listens to a folder; call it before reading the folder's names. A replaced folder gets a new watcher.
   * @returns whether the folder was not listened to before
   */
  listen(folder: string, stats: Pick<Stats, 'ino' | 'dev'>): boolean;
  /** Stops listening to folders that were not passed to {@link listen} since the last call. */
  sweep(): void;
  stop(): void;
}

/** Receivers of file events. */
export interface FolderEventsOptions {
  /** False if the system has no reliable file events for the folder. */
  enabled: boolean;
  /** Something may have changed at a path. `isNew`: the name appeared or disappeared. */
  onChange(path: string, isNew: boolean): void;
  /** The system can watch no more folders. Only scans find changes from now on. */
  onExhausted(): void;
}

/**
 * Makes {@link FolderEvents} with one watcher for each folder. On Linux, a `recursive` watcher blocks the event loop while it
 * walks the whole tree, and needs a watcher for each file.
 */
export function createFolderEvents({ enabled, onChange, onExhausted }: FolderEventsOptions): FolderEvents {
  const listened = new Map<string, { watcher: FSWatcher; identity: string; seen: boolean }>();
  let exhausted = !enabled;
  const forget = (folder: string) => {
    listened.get(folder)?.watcher.close();
    listened.delete(folder);
  };

  return {
    listen(folder, { ino, dev }) {
      const identity = `${dev}:${ino}`;
      const known = listened.get(folder);
      if (known?.identity === identity) {
        known.seen = true;
        return false;
      }
      forget(folder);
      if (exhausted) return true;
      try {
        const watcher = watch(folder, { persistent: false }, (kind, name) => {
          onChange(name === null ? folder : join(folder, name), kind === 'rename');
        });
        // The folder was removed or unmounted: the next scan reports it.
        watcher.on('error', () => forget(folder));
        listened.set(folder, { watcher, identity, seen: true });
      } catch (error) {
        const code = codeOf(error);
        // ENOSPC: fs.inotify.max_user_watches is reached. EMFILE: max_user_instances, or the limit of open files.
        if (code === 'ENOSPC' || code === 'EMFILE' || code === 'ENOSYS') {
          exhausted = true;
          onExhausted();
        }
      }
      return true;
    },
    sweep() {
      for (const [folder, it] of listened) {
        if (!it.seen) forget(folder);
        it.seen = false;
      }
    },
    stop() {
      for (const folder of [...listened.keys()]) forget(folder);
    },
  };
}
