import { randomBytes } from 'node:crypto';
import { copyFile, link, mkdir, open, rename, stat, unlink } from 'node:fs/promises';
import { basename, dirname, extname, join } from 'node:path';
import { isVersion } from '../ingest/file-content.ts';
import { codeOf } from '../ingest/walk-folder.ts';
import type { FileVersion } from '../journal/journal.ts';

/** How to treat a file once the service has it. */
export type Done = { how: 'keep' } | { how: 'delete' } | { how: 'move'; folder: string };

/** A file that was accepted. */
export interface DoneFile {
  path: string;
  /** Relative to the watched folder. */
  relative: string;
  version: FileVersion;
}

/**
 * Moves or deletes a file that the service has. A file that replaced it meanwhile stays: the file is first renamed to a hidden
 * name and checked there, because under its own name another program could replace it between the check and the action.
 * @returns whether it is gone from its place
 */
export async function finishFile({ path, relative, version }: DoneFile, done: Done): Promise<boolean> {
  if (done.how === 'keep') return false;
  const hidden = createHiddenPath(path);
  try {
    await rename(path, hidden);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false;
    throw error;
  }
  try {
    if (!isVersion(await stat(hidden), version)) {
      await restoreName(hidden);
      return false;
    }
    if (done.how === 'delete') await unlink(hidden);
    else await moveToFreeName(hidden, join(done.folder, relative));
    return true;
  } catch (error) {
    await restoreName(hidden);
    throw error;
  }
}

const HIDDEN_NAME = /^\.(.+)\.[0-9a-f]{8}\.mds-aside$/s;

function createHiddenPath(path: string): string {
  // A name has at most 255 bytes.
  const name = Buffer.from(basename(path))
    .subarray(0, 200)
    .toString('utf8')
    .replace(/\ufffd+$/, '');
  return join(dirname(path), `.${name}.${randomBytes(4).toString('hex')}.mds-aside`);
}

/** Whether a file still has the hidden name of {@link finishFile}: the program died before it was done. */
export function isHiddenByMds(path: string): boolean {
  return HIDDEN_NAME.test(basename(path));
}

/** Renames a hidden file back. If another file has its name now, it gets a numbered one. */
export async function restoreName(hidden: string): Promise<void> {
  const name = HIDDEN_NAME.exec(basename(hidden))?.[1];
  if (name !== undefined) await moveToFreeName(hidden, join(dirname(hidden), name));
}

/** Moves a file to a free name, numbered if the wanted one is taken. Never overwrites a file. */
async function moveToFreeName(path: string, wanted: string): Promise<void> {
  await mkdir(dirname(wanted), { recursive: true });
  for (let count = 1; ; count++) {
    const target = count === 1 ? wanted : numbered(wanted, count);
    try {
      // Unlike a rename, a hard link fails if the name is taken.
      await link(path, target);
      await unlink(path);
      return;
    } catch (error) {
      if (codeOf(error) === 'EEXIST') continue;
      if (!WITHOUT_LINKS.has(codeOf(error))) throw error;
      await moveOverReserved(path, target);
      return;
    }
  }
}

/** Errors of another file system, or of one without hard links (FAT, many shares). */
const WITHOUT_LINKS: ReadonlySet<unknown> = new Set(['EXDEV', 'EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK']);

async function moveOverReserved(path: string, wanted: string): Promise<void> {
  const target = await reserveName(wanted);
  try {
    await rename(path, target);
    return;
  } catch (error) {
    if (codeOf(error) !== 'EXDEV') {
      await unlink(target);
      throw error;
    }
  }
  await copyToReserved(path, target);
}

async function copyToReserved(path: string, target: string): Promise<void> {
  try {
    const { atime, mtime } = await stat(path);
    await copyFile(path, target);
    const handle = await open(target, 'r+');
    try {
      await handle.utimes(atime, mtime);
      await handle.sync();
    } finally {
      await handle.close();
    }
  } catch (error) {
    await unlink(target);
    throw error;
  }
  await unlink(path);
}

/** Reserves a free name with an empty file, which a rename may replace. */
async function reserveName(wanted: string): Promise<string> {
  for (let count = 1; ; count++) {
    const target = count === 1 ? wanted : numbered(wanted, count);
    try {
      await (await open(target, 'wx')).close();
      return target;
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') throw error;
    }
  }
}

/** `scan.jpg`, `scan-2.jpg`, `scan-3.jpg`… */
function numbered(path: string, count: number): string {
  const extension = extname(path);
  return `${path.slice(0, path.length - extension.length)}-${count}${extension}`;
}
