import { setTimeout as delay } from 'node:timers/promises';
import { filesOf, type Root } from './find-files.ts';

/** How much there is to do, as far as it is counted. */
export interface FileCount {
  readonly files: number;
  readonly bytes: number;
  /** Whether that is all. */
  readonly complete: boolean;
  /** Ends the counting, having let it come to its end if that takes no longer than this, in milliseconds. */
  stop(graceMs: number): Promise<void>;
}

/**
 * Counts files while they are ingested, with a walk of its own that remembers nothing.
 * @param streams files besides those at the paths
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
  // What cannot be read is told by the walk that ingests.
  const counting = run().catch(() => undefined);
  return count;
}
