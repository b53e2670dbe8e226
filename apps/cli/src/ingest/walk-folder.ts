import type { Stats } from 'node:fs';
import { lstat, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';

/** What stands at a path. */
export type Found =
  | { kind: 'file'; path: string; stats: Stats; link: boolean }
  | { kind: 'folder'; path: string; stats: Stats }
  /** A pipe, a socket, a device, a link that leads nowhere or to a folder: nothing to ingest. */
  | { kind: 'other'; path: string; stats: Stats }
  | { kind: 'unreadable'; path: string; error: unknown };

/** Looks at one path. Of a link to a file, the file counts; a link to a folder is not followed: it could lead round in a circle. */
export async function look(path: string): Promise<Found> {
  try {
    const own = await lstat(path);
    if (own.isDirectory()) return { kind: 'folder', path, stats: own };
    if (own.isFile()) return { kind: 'file', path, stats: own, link: false };
    if (!own.isSymbolicLink()) return { kind: 'other', path, stats: own };
    const stats = await stat(path).catch((error: unknown) => {
      if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ELOOP') return own;
      throw error;
    });
    return stats.isFile() ? { kind: 'file', path, stats, link: true } : { kind: 'other', path, stats: own };
  } catch (error) {
    return { kind: 'unreadable', path, error };
  }
}

/** What of a folder is not to be told like the rest. */
export interface WalkOptions {
  /** Paths that are left out, with all that is in them. */
  skip?: ((path: string) => boolean) | undefined;
  /** Called for what is hidden. */
  onHidden?: ((path: string) => Promise<void>) | undefined;
}

/** What of a folder is not to be told like the rest. */
export interface WalkOptions {
  /** Paths that are left out, with all that is in them. */
  skip?: ((path: string) => boolean) | undefined;
  /** Called for what is hidden. */
  onHidden?: ((path: string) => Promise<void>) | undefined;
}

/**
 * Goes through a folder and all folders in it, in the order of their names. Each is read when its turn comes, so that of a tree
 * of any size only the names of the folders on the way down are in memory. What is hidden (a leading dot) is left out.
 * A folder is told before what is in it, one that cannot be read a second time, as unreadable.
 */
export async function* walkFolder(folder: string, options: WalkOptions = {}): AsyncGenerator<Found> {
  let names: string[];
  try {
    names = await readdir(folder);
  } catch (error) {
    yield { kind: 'unreadable', path: folder, error };
    return;
  }
  for (const name of names.toSorted()) {
    const path = join(folder, name);
    if (name.startsWith('.')) {
      await options.onHidden?.(path);
      continue;
    }
    if (options.skip?.(path)) continue;
    const found = await look(path);
    // Gone since the folder was read: there is nothing to say of it.
    if (found.kind === 'unreadable' && codeOf(found.error) === 'ENOENT' && !name.includes('\ufffd')) continue;
    yield found;
    if (found.kind === 'folder') yield* walkFolder(path, options);
  }
}

/** Why a path cannot be read, for people. */
export function reasonOf(error: unknown, path = ''): string {
  const code = codeOf(error);
  // Node puts U+FFFD where bytes are no UTF-8; nothing is found under that name.
  if (code === 'ENOENT' && path.includes('\ufffd')) return 'its name is not valid UTF-8; rename it';
  if (code === 'ENOENT' || code === 'ENOTDIR') return 'there is no such file or folder';
  if (code === 'EACCES' || code === 'EPERM') return 'you may not read it';
  if (code === 'EBUSY') return 'another program keeps it locked';
  if (code === 'EIO' || code === 'ESTALE' || code === 'ENOTCONN') return 'the disk or the share does not answer';
  return error instanceof Error ? error.message : String(error);
}

/** The system's code of an error, where it has one. */
export function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}
