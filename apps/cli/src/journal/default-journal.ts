import { createHash } from 'node:crypto';
import { join, resolve } from 'node:path';
import type { Io } from '../io.ts';
import type { JournalOwner } from './journal-file.ts';

/**
 * The folder for state that outlives the program but may be lost (XDG Base Directory Specification).
 * @returns null if the environment names neither this folder nor a home
 */
export function stateFolder({ env, cwd }: Pick<Io, 'env' | 'cwd'>): string | null {
  const home = env['HOME'] || env['USERPROFILE'];
  const state = env['XDG_STATE_HOME'] || (home ? join(home, '.local', 'state') : null);
  return state === null ? null : resolve(cwd, state, 'mds');
}

/**
 * The default path of a journal: one for each service and set of paths, in the {@link stateFolder}.
 * @param paths absolute
 * @returns null if there is no such folder
 */
export function defaultJournal(
  { env, cwd }: Pick<Io, 'env' | 'cwd'>,
  kind: JournalOwner['kind'],
  service: string,
  paths: readonly string[],
): string | null {
  const folder = stateFolder({ env, cwd });
  if (folder === null) return null;
  const of = createHash('sha256').update([service, ...paths.toSorted()].join('\0'));
  return join(folder, `${kind}-${of.digest('hex').slice(0, 16)}.jsonl`);
}
