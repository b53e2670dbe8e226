import { existsSync, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Need } from './benchmark.ts';

/** The repository's root, with a slash at its end. */
export const root = fileURLToPath(new URL('..', import.meta.url));

/** A sentence for each need that this machine does not meet. */
export function missing(needs: readonly Need[]): string[] {
  return needs
    .filter((need) => ('program' in need ? !isOnPath(need.program) : !existsSync(join(root, need.file))))
    .map((need) => `${'program' in need ? need.program : need.file} is missing: ${need.hint}`);
}

function isOnPath(program: string): boolean {
  const folders = (process.env['PATH'] ?? '').split(delimiter);
  return folders.some((folder) => statSync(join(folder, program), { throwIfNoEntry: false })?.isFile() ?? false);
}
