import { randomBytes } from 'node:crypto';
import { copyFile, link, mkdir, open, rename, stat, unlink } from 'node:fs/promises';
import { basename, dirname, extname, join } from 'node:path';
import { isVersion } from '../ingest/file-content.ts';
import { codeOf } from '../ingest/walk-folder.ts';
import type { FileVersion } from '../journal/journal.ts';

/** What is done with a file that the service has. */
export type Done = { how: 'keep' } | { how: 'delete' } | { how: 'move'; folder: string };

/** A file that was accepted. */
export interface DoneFile {
  path: string;
  /** As seen from the watched folder. */
  relative: string;
  version: FileVersion;
}

/**
 * Moves or deletes a file that the service has, and never another: whatever was put in its place meanwhile stays. It is taken aside
 * first, to a hidden name in its folder, for what has a name that others know may be replaced between a look and a deed.
 * @returns whether it is gone from its place
 */
export async function finishFile({ path, relative, version }: DoneFile, done: Done): Promise<boolean> {
  if (done.how === 'keep') return false;
  const aside = asideName(path);
  try {
    await rename(path, aside);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false;
    throw error;
  }
  try {
    if (!isVersion(await stat(aside), version)) {
      await giveBack(aside);
      return false;
    }
    if (done.how === 'delete') await unlink(aside);
    else await moveUnder(aside, join(done.folder, relative));
    return true;
  } catch (error) {
    await giveBack(aside);
    throw error;
  }
}

const ASIDE = /^\.(.+)\.[0-9a-f]{8}\.mds-aside$/s;

function asideName(path: string): string {
  // A name may take 255 bytes.
  const name = Buffer.from(basename(path))
    .subarray(0, 200)
    .toString('utf8')
    .replace(/\ufffd+$/, '');
  return join(dirname(path), `.${name}.${randomBytes(4).toString('hex')}.mds-aside`);
}

/** Whether a file was taken aside by a program that died then: see {@link giveBack}. */
export function isAside(path: string): boolean {
  return ASIDE.test(basename(path));
}

/** Gives a file that was taken aside its name again, or one beside it where that was given to another meanwhile. */
export async function giveBack(aside: string): Promise<void> {
  const name = ASIDE.exec(basename(aside))?.[1];
  if (name !== undefined) await moveUnder(aside, join(dirname(aside), name));
}

/** Moves a file to a name that nobody has, counting on from the one that is wanted: nothing is ever overwritten. */
async function moveUnder(path: string, wanted: string): Promise<void> {
  await mkdir(dirname(wanted), { recursive: true });
  for (let count = 1; ; count++) {
    const target = count === 1 ? wanted : numbered(wanted, count);
    try {
      // Unlike a rename, a hard link is refused where the name is taken.
      await link(path, target);
      await unlink(path);
      return;
    } catch (error) {
      if (codeOf(error) === 'EEXIST') continue;
      if (!WITHOUT_LINKS.has(codeOf(error))) throw error;
      await claimAndMove(path, target);
      return;
    }
  }
}

/** Another file system, or one that has no hard links: FAT, many shares. */
const WITHOUT_LINKS: ReadonlySet<unknown> = new Set(['EXDEV', 'EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK']);

async function claimAndMove(path: string, wanted: string): Promise<void> {
  const target = await claim(wanted);
  try {
    await rename(path, target);
    return;
  } catch (error) {
    if (codeOf(error) !== 'EXDEV') {
      await unlink(target);
      throw error;
    }
  }
  await copyOver(path, target);
}

async function copyOver(path: string, target: string): Promise<void> {
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

/** Takes a name by an empty file of our own, which a rename may replace. */
async function claim(wanted: string): Promise<string> {
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
