import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { programOnPath } from '@mds/transcode';
import type { Need } from './benchmark.ts';

/** The repository's root, with a slash at its end. */
export const root = fileURLToPath(new URL('..', import.meta.url));

/** A sentence for each need that this machine does not meet. */
export function missing(needs: readonly Need[]): string[] {
  return needs.filter((need) => !isMet(need)).map((need) => `${nameOf(need)} is missing: ${need.hint}`);
}

function isMet(need: Need): boolean {
  if ('program' in need) return programOnPath(need.program) !== null;
  if ('isThere' in need) return need.isThere();
  return 'file' in need ? existsSync(join(root, need.file)) : process.platform === need.platform;
}

function nameOf(need: Need): string {
  if ('program' in need) return need.program;
  if ('called' in need) return need.called;
  return 'file' in need ? need.file : need.platform;
}
