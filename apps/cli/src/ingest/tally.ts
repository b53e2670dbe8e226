import type { IngestOutcome } from './ingest-files.ts';

/** Whether a file was accepted and is processed still, while nobody waits for it any more: possible where somebody did. */
export function isStillProcessed({ outcome, media }: IngestOutcome): boolean {
  return outcome !== 'failed' && media !== null && media.status !== 'ready';
}

/** Whether a file's media object is ready while renditions of it failed. */
export function isIncomplete({ failed_renditions: failed }: IngestOutcome): boolean {
  return failed.length > 0;
}

/** Files that failed for one reason. */
export interface FailureGroup {
  /** The problem's code; null where there is none. */
  code: string | null;
  files: number;
  /** The first few. */
  first: IngestOutcome[];
}

/** What became of all files so far: numbers, and a few of each kind by name, however many there are. */
export interface Tally {
  files: number;
  created: number;
  existing: number;
  remembered: number;
  failed: number;
  failures: ReadonlyMap<string | null, FailureGroup>;
  /** Accepted, and processed still, while they were to be waited for. */
  unfinished: number;
  firstUnfinished: IngestOutcome[];
  incomplete: number;
  failedRenditions: number;
  warnings: number;
  /** The first that was accepted and then failed, and the first of which renditions did. */
  firstFailedMedia: IngestOutcome | null;
  firstIncomplete: IngestOutcome | null;
  add(outcome: IngestOutcome): void;
}

/** How many are told by name of what may be many: more of the same would hide the rest. */
export const MAX_NAMED = 5;

/** @param waited whether files were to be waited for */
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
