import type { Stats } from 'node:fs';
import { lstat, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';

/** The file or folder at a path. */
export type Found =
  | { kind: 'file'; path: string; stats: Stats; link: boolean }
  | { kind: 'folder'; path: string; stats: Stats }
  /** A pipe, a socket, a device, or a link to a folder or to nothing. It cannot be ingested. */
  | { kind: 'other'; path: string; stats: Stats }
  | { kind: 'unreadable'; path: string; error: unknown };

/** Inspects one path. A link to a file counts as that file. A link to a folder is not followed, because it could form a circle. */
export async function inspectPath(path: string): Promise<Found> {
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

/** Exceptions of a walk. */
export interface WalkOptions {
  /** Returns true for paths to skip, with everything in them. */
  skip?: ((path: string) => boolean) | undefined;
  /** Called for hidden files and folders. */
  onHidden?: ((path: string) => Promise<void>) | undefined;
}

/**
 * Walks a folder and its subfolders in the order of names. Each folder is read when its turn comes, so only the names on the
 * current path are in memory. Hidden files and folders (with a leading dot) are skipped. A folder comes before its content; an
 * unreadable folder comes a second time, as unreadable.
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
    const found = await inspectPath(path);
    // It was removed since the folder was read.
    if (found.kind === 'unreadable' && codeOf(found.error) === 'ENOENT' && !name.includes('\ufffd')) continue;
    yield found;
    if (found.kind === 'folder') yield* walkFolder(path, options);
  }
}

/** Why a path cannot be read, as the end of a sentence. */
export function reasonOf(error: unknown, path = ''): string {
  const code = codeOf(error);
  // Node puts U+FFFD in place of bytes that are not UTF-8, so the real name is unknown.
  if (code === 'ENOENT' && path.includes('\ufffd')) return 'its name is not valid UTF-8; rename it';
  if (code === 'ENOENT' || code === 'ENOTDIR') return 'there is no such file or folder';
  if (code === 'EACCES' || code === 'EPERM') return 'you may not read it';
  if (code === 'EBUSY') return 'another program keeps it locked';
  if (code === 'EIO' || code === 'ESTALE' || code === 'ENOTCONN') return 'the disk or the share does not answer';
  return error instanceof Error ? error.message : String(error);
}

/** The system's code of an error, if it has one. */
export function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}
