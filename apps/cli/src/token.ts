import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { CliError, EXIT } from './exit-codes.ts';
import type { Io } from './io.ts';

/** What became of looking for the operator's token. */
export interface TokenSearch {
  token: string | null;
  /** Where it is from, in words, or where it was looked for in vain. */
  source: string;
}

/**
 * Looks for the operator's token: the option, MDS_TOKEN, the file that the service writes into its data folder.
 * @throws CliError where the file is there and cannot be read
 */
export async function findToken(io: Io, option: string | undefined): Promise<TokenSearch> {
  if (option !== undefined) return { token: option, source: '--token' };
  const variable = io.env['MDS_TOKEN'];
  if (variable) return { token: variable, source: 'MDS_TOKEN' };
  const path = resolve(io.cwd, io.env['MDS_DATA_DIR'] || 'data', 'control-token');
  try {
    const token = (await readFile(path, 'utf8')).trim();
    return token ? { token, source: path } : { token: null, source: `${path} (which is empty)` };
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'ENOENT' || code === 'ENOTDIR') return { token: null, source: `${path} (no such file)` };
    if (code === 'EACCES' || code === 'EPERM') return { token: null, source: `${path} (you may not read it)` };
    throw new CliError(`The token file ${path} cannot be read: ${String(code ?? error)}`, { cause: error });
  }
}

/** @throws CliError that says where the token was looked for and how to give it */
export function requireToken({ token, source }: TokenSearch): string {
  if (token !== null) return token;
  throw new CliError(`This needs an operator's token, and there is none. Looked at --token, MDS_TOKEN and ${source}.`, {
    exitCode: EXIT.notAuthorised,
    hints: [
      'The service writes control-token into its data folder when it first starts.',
      'Run mds beside that folder, name the folder with MDS_DATA_DIR, or give the token with MDS_TOKEN.',
    ],
  });
}
