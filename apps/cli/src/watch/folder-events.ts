import { type FSWatcher, type Stats, watch } from 'node:fs';
import { join } from 'node:path';
import { codeOf } from '../ingest/walk-folder.ts';

/** What the system tells of changes in folders. Hints alone: events are lost, and shares have none. What counts is a look. */
export interface FolderEvents {
  /**
   * Listens to a folder, from before its names are read. One that was replaced by another is listened to anew.
   * @returns whether it was not listened to before
   */
  listen(folder: string, stats: Pick<Stats, 'ino' | 'dev'>): boolean;
  /** Ends listening to folders that were not {@link listen}ed to since the last call. */
  sweep(): void;
  stop(): void;
}

/** What becomes of hints. */
export interface FolderEventsOptions {
  /** False where there are none, or none that can be relied on. */
  enabled: boolean;
  /** Something may have changed at a path; `isNew`: the name was not there before, or is no more. */
  onChange(path: string, isNew: boolean): void;
  /** The system listens to no more folders: looking has to do from now on. */
  onExhausted(): void;
}

/**
 * Makes {@link FolderEvents}: one watcher a folder. Not `recursive`, which on Linux walks the whole tree at once while everything
 * waits, and takes a watcher a file.
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
        // Removed, or unmounted: the next look says so.
        watcher.on('error', () => forget(folder));
        listened.set(folder, { watcher, identity, seen: true });
      } catch (error) {
        const code = codeOf(error);
        // ENOSPC: fs.inotify.max_user_watches; EMFILE: max_user_instances, or open files.
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
