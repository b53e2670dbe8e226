import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { programOnPath } from '@mds/transcode';
import type { Need } from './benchmark.ts';

/** The repository's root, with a slash at its end. */
export const root = fileURLToPath(new URL('..', import.meta.url));

/** A sentence for each need that this machine does not meet. */
export function missing(needs: readonly Need[]): string[] {
  return needs
    .filter((need) => ('program' in need ? programOnPath(need.program) === null : !existsSync(join(root, need.file))))
    .map((need) => `${'program' in need ? need.program : need.file} is missing: ${need.hint}`);
}
