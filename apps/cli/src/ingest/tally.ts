import type { IngestOutcome } from './ingest-files.ts';

/** Whether an accepted file is still being processed. Possible if the wait for it was interrupted. */
export function isStillProcessed({ outcome, media }: IngestOutcome): boolean {
  return outcome !== 'failed' && media !== null && media.status !== 'ready';
}

/** Whether a media object is ready but has failed renditions. */
export function isIncomplete({ failed_renditions: failed }: IngestOutcome): boolean {
  return failed.length > 0;
}

/** Files that failed for one reason. */
export interface FailureGroup {
  /** The problem's code; null if there is none. */
  code: string | null;
  files: number;
  /** The first few. */
  first: IngestOutcome[];
}

/** The outcomes so far: counts, and a few examples of each kind. Its size does not grow with the number of files. */
export interface Tally {
  files: number;
  created: number;
  existing: number;
  remembered: number;
  failed: number;
  failures: ReadonlyMap<string | null, FailureGroup>;
  /** Accepted and still being processed, although the command waited for them. */
  unfinished: number;
  firstUnfinished: IngestOutcome[];
  incomplete: number;
  failedRenditions: number;
  warnings: number;
  /** The first accepted file that failed later, and the first with failed renditions. */
  firstFailedMedia: IngestOutcome | null;
  firstIncomplete: IngestOutcome | null;
  add(outcome: IngestOutcome): void;
}

/** At most this many files of a kind are named: a longer list would hide the rest. */
export const MAX_NAMED = 5;

/** @param waited whether the command waits for media objects */
export function createTally(waited: boolean): Tally {
  const failures = new Map<string | null, FailureGroup>();
  return {
    files: 0,
    created: 0,
    existing: 0,
    remembered: 0,
    failed: 0,
    failures,
    unfinished: 0,
    firstUnfinished: [],
    incomplete: 0,
    failedRenditions: 0,
    warnings: 0,
    firstFailedMedia: null,
    firstIncomplete: null,
    add(result) {
      this.files++;
      this.warnings += result.media?.warnings.length ?? 0;
      if (waited && isStillProcessed(result)) {
        this.unfinished++;
        if (this.firstUnfinished.length < MAX_NAMED) this.firstUnfinished.push(result);
      } else {
        this[result.outcome]++;
      }
      if (isIncomplete(result)) {
        this.incomplete++;
        this.failedRenditions += result.failed_renditions.length;
        this.firstIncomplete ??= result;
      }
      if (result.outcome !== 'failed') return;
      if (result.media?.status === 'failed') this.firstFailedMedia ??= result;
      const code = result.error?.code ?? null;
      const group = failures.get(code) ?? { code, files: 0, first: [] };
      failures.set(code, group);
      group.files++;
      if (group.first.length < MAX_NAMED) group.first.push(result);
    },
  };
}
