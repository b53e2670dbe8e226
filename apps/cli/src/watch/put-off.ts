import type { Stats } from 'node:fs';

/** Files that cannot be done with now, and when to try again. */
export interface PutOff {
  /**
   * Puts a file off.
   * @param stats as it is; null where not even that is known
   * @returns whether that is news: not where it was put off for the same reason before
   */
  add(path: string, stats: Pick<Stats, 'ctimeMs'> | null, why: string, nowMs: number): boolean;
  /** Whether a file is to be left alone still: it has not changed, nor have its rights, and it is not time to try again. */
  holds(path: string, stats: Pick<Stats, 'ctimeMs'>, nowMs: number): boolean;
  forget(path: string): void;
}

/** What changes without a trace, a lock say, is tried again after so long. */
const AGAIN_MS = 60_000;
const MAX_PATHS = 5_000;

/** Makes a {@link PutOff} that remembers as many as it has room for. */
export function createPutOff(): PutOff {
  const paths = new Map<string, { ctimeMs: number | null; why: string; againMs: number }>();
  return {
    add(path, stats, why, nowMs) {
      const isNews = paths.get(path)?.why !== why;
      paths.delete(path);
      // The oldest goes: a Map is in the order of its entries.
      if (paths.size >= MAX_PATHS) for (const oldest of paths.keys()) if (paths.delete(oldest)) break;
      paths.set(path, { ctimeMs: stats?.ctimeMs ?? null, why, againMs: nowMs + AGAIN_MS });
      return isNews;
    },
    holds(path, { ctimeMs }, nowMs) {
      const it = paths.get(path);
      return it !== undefined && it.ctimeMs === ctimeMs && nowMs < it.againMs;
    },
    forget(path) {
      paths.delete(path);
    },
  };
}
