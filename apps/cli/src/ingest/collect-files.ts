import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { CliError, EXIT } from '../exit-codes.ts';

/** A file to ingest. */
export interface IngestFile {
  /** As its user named it. */
  label: string;
  /** The name that the service is told; none for a stream that has none. */
  filename: string | undefined;
  /** Null where the length is not known before the end: a pipe. */
  bytes: number | null;
  /** The content; a file can be opened again and again, a pipe be read once. */
  content: AsyncIterable<Uint8Array> | (() => AsyncIterable<Uint8Array>);
}

/**
 * Finds the files that some paths stand for: a file itself, a folder all that is in it, folders in it included. In folders,
 * what is hidden (a leading dot) is left out, and links to folders are not followed.
 * @param cwd folder that relative paths are seen from
 * @throws CliError naming every path that is not there or holds nothing; nothing has been sent by then
 */
export async function collectFiles(paths: readonly string[], cwd: string): Promise<IngestFile[]> {
  const files = new Map<string, IngestFile>();
  const problems: string[] = [];
  for (const path of paths) {
    const absolute = resolve(cwd, path);
    const found = await inspect(absolute);
    if (typeof found === 'string') problems.push(`${path}: ${found}`);
    else if (found.kind === 'file') files.set(absolute, fileAt(path, absolute, found.bytes));
    else {
      const inside = await walk(path, absolute);
      if (inside.length === 0) problems.push(`${path}: this folder has no files`);
      // A file that two paths lead to goes once.
      for (const [key, file] of inside) files.set(key, file);
    }
  }
  if (problems.length > 0) {
    throw new CliError(
      problems.length === 1 ? `${problems[0]}` : 'Some of what you named cannot be ingested; nothing was sent.',
      {
        exitCode: EXIT.usage,
        hints: problems.length === 1 ? [] : problems,
      },
    );
  }
  return [...files.values()];
}

type Found = { kind: 'file'; bytes: number | null } | { kind: 'folder' };

/** What stands at a path; a sentence where it is of no use. */
async function inspect(absolute: string): Promise<Found | string> {
  try {
    const stats = await stat(absolute);
    if (stats.isDirectory()) return { kind: 'folder' };
    if (stats.isFile()) return { kind: 'file', bytes: stats.size };
    // Opening a pipe that nobody writes to would block, and no Ctrl-C could end it: `mds ingest - < pipe` does it in the shell.
    return stats.isFIFO() ? 'this is a named pipe; use: mds ingest - < PIPE' : 'this is neither a file nor a folder';
  } catch (error) {
    return reasonOf(error);
  }
}

async function walk(label: string, folder: string): Promise<[string, IngestFile][]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch((error: unknown) => {
    throw new CliError(`${label}: ${reasonOf(error)}`, { cause: error });
  });
  const found: [string, IngestFile][] = [];
  for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    if (entry.name.startsWith('.')) continue;
    const path = join(label, entry.name);
    const absolute = join(folder, entry.name);
    if (entry.isDirectory()) found.push(...(await walk(path, absolute)));
    else if (entry.isFile() || entry.isSymbolicLink()) {
      const target = await inspect(absolute);
      // A link to a folder could lead round in a circle; one that leads nowhere is not worth ending everything for.
      if (typeof target !== 'string' && target.kind === 'file')
        found.push([absolute, fileAt(path, absolute, target.bytes)]);
    }
  }
  return found;
}

function fileAt(label: string, absolute: string, bytes: number | null): IngestFile {
  // A generator: the file is opened when the first piece of it is asked for, which may never be.
  async function* open(): AsyncIterable<Uint8Array> {
    yield* createReadStream(absolute, { highWaterMark: 256 * 1024 });
  }
  // A pipe gives what it has once.
  return { label, filename: basename(absolute), bytes, content: bytes === null ? open() : open };
}

function reasonOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (code === 'ENOENT' || code === 'ENOTDIR') return 'there is no such file or folder';
  if (code === 'EACCES' || code === 'EPERM') return 'you may not read it';
  return error instanceof Error ? error.message : String(error);
}
