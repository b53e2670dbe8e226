import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { CliError, EXIT } from './exit-codes.ts';
import type { Io } from './io.ts';

/** The result of the search for the operator's token. */
export interface TokenSearch {
  token: string | null;
  /** In words: where the token was found, or the last place that was searched in vain. */
  source: string;
}

/**
 * Searches the operator's token: in the option, in MDS_TOKEN, and in the file that the service writes into its data folder.
 * @throws CliError if the file exists and cannot be read
 */
export async function findToken(io: Io, option: string | undefined): Promise<TokenSearch> {
  if (option !== undefined) return { token: option, source: '--token' };
  const variable = io.env['MDS_TOKEN'];
  if (variable) return { token: variable, source: 'MDS_TOKEN' };
  const path = resolve(io.cwd, io.env['MDS_DATA_DIR'] || 'data', 'control-token');
  try {
    const token = (await readFile(path, 'utf8')).trim();
    return token ? { token, source: path } : { token: null, source: `${path} (empty)` };
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'ENOENT' || code === 'ENOTDIR') return { token: null, source: `${path} (no such file)` };
    if (code === 'EACCES' || code === 'EPERM') return { token: null, source: `${path} (permission denied)` };
    throw new CliError(`The token file ${path} cannot be read: ${String(code ?? error)}`, { cause: error });
  }
}

/** @throws CliError with the searched places if there is no token */
export function requireToken({ token, source }: TokenSearch): string {
  if (token !== null) return token;
  throw new CliError(`This command needs an operator's token. None was found in --token, MDS_TOKEN or ${source}.`, {
    exitCode: EXIT.notAuthorised,
    hints: [
      'The service writes control-token into its data folder when it first starts.',
      'Run mds beside that folder, name the folder with MDS_DATA_DIR, or give the token with MDS_TOKEN.',
    ],
  });
}
