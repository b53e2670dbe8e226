import { createHash } from 'node:crypto';
import { join, resolve } from 'node:path';
import type { Io } from '../io.ts';
import type { JournalOwner } from './journal.ts';

/**
 * Where a journal lies unless told otherwise: one for each service and set of paths, in the folder for state that outlives a
 * program (XDG Base Directory Specification).
 * @param paths absolute
 * @returns null where the environment names neither that folder nor a home
 */
export function defaultJournal(
  { env, cwd }: Pick<Io, 'env' | 'cwd'>,
  kind: JournalOwner['kind'],
  service: string,
  paths: readonly string[],
): string | null {
  const home = env['HOME'] || env['USERPROFILE'];
  const state = env['XDG_STATE_HOME'] || (home ? join(home, '.local', 'state') : null);
  if (state === null) return null;
  const of = createHash('sha256').update([service, ...paths.toSorted()].join('\0'));
  return resolve(cwd, state, 'mds', `${kind}-${of.digest('hex').slice(0, 16)}.jsonl`);
}
