import type { Stats } from 'node:fs';

/** Files that cannot be processed now, each with the time of its next attempt. */
export interface DeferredFiles {
  /**
   * Defers a file.
   * @param stats its current state; null if not even that is known
   * @returns whether the reason is new: false if the file was already deferred for the same reason
   */
  add(path: string, stats: Pick<Stats, 'ctimeMs'> | null, why: string, nowMs: number): boolean;
  /** Whether a file must still wait: its content and rights are unchanged, and its next attempt is not due. */
  isDeferred(path: string, stats: Pick<Stats, 'ctimeMs'>, nowMs: number): boolean;
  forget(path: string): void;
}

/** Some reasons, such as a lock, end without a change to the file. Such a file is tried again after this time. */
const RETRY_MS = 60_000;
const MAX_PATHS = 5_000;

/** Makes {@link DeferredFiles} that hold at most 5,000 files. */
export function createDeferredFiles(): DeferredFiles {
  const paths = new Map<string, { ctimeMs: number | null; why: string; retryAtMs: number }>();
  return {
    add(path, stats, why, nowMs) {
      const isNew = paths.get(path)?.why !== why;
      paths.delete(path);
      // Drops the oldest: a Map keeps the order of insertion.
      if (paths.size >= MAX_PATHS) for (const oldest of paths.keys()) if (paths.delete(oldest)) break;
      paths.set(path, { ctimeMs: stats?.ctimeMs ?? null, why, retryAtMs: nowMs + RETRY_MS });
      return isNew;
    },
    isDeferred(path, { ctimeMs }, nowMs) {
      const it = paths.get(path);
      return it !== undefined && it.ctimeMs === ctimeMs && nowMs < it.retryAtMs;
    },
    forget(path) {
      paths.delete(path);
    },
  };
}
