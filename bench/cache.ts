import { mkdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { root } from './needs.ts';

/** The folder of pictures and databases that are kept between runs. They are derived, never committed, and safe to delete. */
const folder = join(root, 'node_modules', '.cache', 'mds-bench');

/**
 * The path of something that takes long to make; makes it if it does not exist. `make` writes a file or folder to a temporary path,
 * which gets the final name only when it is complete. Change the name when the content changes.
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
