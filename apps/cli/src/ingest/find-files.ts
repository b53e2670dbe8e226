import { stat } from 'node:fs/promises';
import { basename, join, relative, resolve } from 'node:path';
import { CliError, EXIT } from '../exit-codes.ts';
import type { FileVersion } from '../journal/journal.ts';
import { shownUrl } from '../output/shown-url.ts';
import { fileContent } from './file-content.ts';
import { type Found, look, reasonOf, walkFolder } from './walk-folder.ts';

/** A file to ingest. */
export interface IngestFile {
  /** As its user named it. */
  label: string;
  /** Where it lies, and which version of it was found there; null for a stream. */
  source: { path: string; version: FileVersion } | null;
  /** The name that the service is told; none for a stream that has none. */
  filename: string | undefined;
  /** Null where the length is not known before the end: a pipe. */
  bytes: number | null;
  /** The content; a file can be opened again and again, a pipe be read once. */
  content: AsyncIterable<Uint8Array> | (() => AsyncIterable<Uint8Array>);
}

/** A file that the service is to fetch itself. */
export interface RemoteFile {
  label: string;
  url: string;
  filename: string | undefined;
}

/** A folder, or a file in one, that could not be looked at when its turn came; a URL that nobody fetches from. */
export interface UnreadableFile {
  label: string;
  failure: { code: string; message: string };
}

/** A path that somebody named, and what stands there. */
export interface Root {
  /** As its user named it; of a URL without its secrets. */
  label: string;
  /** Absolute; of a URL, the URL. */
  path: string;
  kind: 'file' | 'folder' | 'url';
}

/** The scheme of a URL, `https:`; null where somebody named a path. */
function schemeOf(label: string): string | null {
  return /^([a-z][a-z\d+.-]+:)\/\//i.exec(label)?.[1]?.toLowerCase() ?? null;
}

/**
 * Looks at the paths that somebody named.
 * @param cwd folder that relative paths are seen from
 * @throws CliError naming every path that is not there or holds nothing; nothing has been sent by then
 */
export async function findRoots(labels: readonly string[], cwd: string): Promise<Root[]> {
  const roots = new Map<string, Root>();
  const problems: string[] = [];
  for (const label of labels) {
    const isUrl = schemeOf(label) !== null;
    const path = isUrl ? label : resolve(cwd, label);
    const kind = isUrl ? 'url' : await kindOf(path);
    if (typeof kind === 'object') problems.push(`${label}: ${kind.problem}`);
    else if (!roots.has(path)) roots.set(path, { label: isUrl ? shownUrl(label) : label, path, kind });
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
  return [...roots.values()];
}

async function kindOf(path: string): Promise<'file' | 'folder' | { problem: string }> {
  try {
    const stats = await stat(path);
    if (stats.isFile()) return 'file';
    if (stats.isDirectory()) return (await holdsFiles(path)) ? 'folder' : { problem: 'this folder has no files' };
    // Opening a pipe that nobody writes to would block, and no Ctrl-C could end it: `mds ingest - < pipe` does it in the shell.
    const use = 'this is a named pipe; use: mds ingest - < PIPE';
    return { problem: stats.isFIFO() ? use : 'this is neither a file nor a folder' };
  } catch (error) {
    return { problem: reasonOf(error, path) };
  }
}

async function holdsFiles(folder: string): Promise<boolean> {
  for await (const found of walkFolder(folder)) {
    if (found.kind === 'unreadable' && found.path === folder) throw found.error;
    if (found.kind === 'file' || found.kind === 'unreadable') return true;
  }
  return false;
}

/**
 * The files that named paths stand for, each found when its turn comes: a file itself, a folder all that is in it, folders in it
 * included. In folders, what is hidden (a leading dot) is left out, and links to folders are not followed.
 */
export async function* filesOf(roots: readonly Root[]): AsyncGenerator<IngestFile | RemoteFile | UnreadableFile> {
  // What two paths lead to goes once: a path that is named itself is left to its own turn.
  const named = new Set(roots.map(({ path }) => path));
  for (const { label, path, kind } of roots) {
    if (kind === 'url') {
      yield remoteFile(label, path);
      continue;
    }
    if (kind === 'file') {
      // A link that somebody names is meant, wherever it leads.
      const found = await look(path);
      yield found.kind === 'file' ? fileAt(label, found) : unreadable(label, found);
      continue;
    }
    for await (const found of walkFolder(path, { skip: (inside) => named.has(inside) })) {
      const shown = join(label, relative(path, found.path));
      if (found.kind === 'file') yield fileAt(shown, found);
      else if (found.kind === 'unreadable') yield unreadable(shown, found);
    }
  }
}

const FETCHED: ReadonlySet<string | null> = new Set(['http:', 'https:']);

function remoteFile(label: string, url: string): RemoteFile | UnreadableFile {
  const scheme = schemeOf(url);
  if (FETCHED.has(scheme)) return { label, url, filename: undefined };
  const message = `Nothing is fetched from ${scheme} URLs; http: and https: are. A file of this machine is named by its path.`;
  return { label, failure: { code: 'source_not_allowed', message } };
}

/** A file that was found, ready to be sent. */
export function fileAt(label: string, { path, stats }: Found & { kind: 'file' }): IngestFile {
  const version = { bytes: stats.size, mtimeMs: stats.mtimeMs };
  return {
    label,
    source: { path, version },
    filename: basename(path),
    bytes: stats.size,
    // A generator: the file is opened when the first piece of it is asked for, which may never be.
    content: () => fileContent(path, version),
  };
}

function unreadable(label: string, found: Found): UnreadableFile {
  const why = found.kind === 'unreadable' ? reasonOf(found.error, found.path) : 'it is no file any more';
  return { label, failure: { code: 'file_unreadable', message: `It cannot be read: ${why}.` } };
}
