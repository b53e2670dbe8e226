import { setTimeout as delay } from 'node:timers/promises';
import { filesOf, type Root } from './find-files.ts';

/** The number of files to ingest, as far as they are counted. */
export interface FileCount {
  readonly files: number;
  readonly bytes: number;
  /** Whether all files are counted. */
  readonly complete: boolean;
  /** Stops counting. Waits up to `graceMs` milliseconds for the count to finish. */
  stop(graceMs: number): Promise<void>;
}

/**
 * Counts files while they are ingested. It walks the folders separately and stores no names.
 * @param streams the number of inputs that have no path
 */
export function countFiles(roots: readonly Root[], streams: number): FileCount {
  const stopped = new AbortController();
  const count = {
    files: streams,
    bytes: 0,
    complete: false,
    async stop(graceMs: number) {
      if (!count.complete) await Promise.race([counting, delay(graceMs, undefined, { signal: stopped.signal })]);
      stopped.abort();
    },
  };
  const run = async () => {
    for await (const file of filesOf(roots)) {
      if (stopped.signal.aborted) return;
      count.files++;
      if ('bytes' in file) count.bytes += file.bytes ?? 0;
    }
    count.complete = true;
  };
  // The ingesting walk reports what cannot be read.
  const counting = run().catch(() => undefined);
  return count;
}
