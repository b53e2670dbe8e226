// The order in which vitest runs test files: the longest first, so that no worker begins one when the others have ended.
import { readFileSync } from 'node:fs';
import { relative, sep } from 'node:path';
import { BaseSequencer } from 'vitest/node';
import { ROOT } from './workspace.mjs';

/** Seconds that test files took, without those of less than a second. `MDS_TEST_RECORD=1 npm test` records them anew. */
export const DURATIONS_FILE = `${ROOT}scripts/test-durations.json`;

export class LongestFirst extends BaseSequencer {
  async sort(files) {
    const recorded = JSON.parse(readFileSync(DURATIONS_FILE, 'utf8'));
    const secondsOf = ({ moduleId }) => recorded[relative(ROOT, moduleId).replaceAll(sep, '/')] ?? 0;
    // Vitest runs the groups one after another, whatever the order of their files.
    return (await super.sort(files)).sort((a, b) => secondsOf(b) - secondsOf(a));
  }
}
