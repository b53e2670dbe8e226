import { mkdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { root } from './needs.ts';

/** Where pictures and databases are kept from run to run: derived, never committed, safe to delete. */
const folder = join(root, 'node_modules', '.cache', 'mds-bench');

/**
 * The path of something that takes long to make, made where it is not there yet. `make` gets a path to write a file or a
 * folder to; only a finished one is ever given its name. Change the name when what is made changes.
 */
export async function cached(name: string, make: (path: string) => Promise<void>): Promise<string> {
  const path = join(folder, name);
  if (await stat(path).catch(() => null)) return path;
  await mkdir(folder, { recursive: true });
  const temporary = `${path}.${process.pid}.partial`;
  await rm(temporary, { recursive: true, force: true });
  await make(temporary);
  await rename(temporary, path);
  return path;
}
