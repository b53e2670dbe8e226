import { stat } from 'node:fs/promises';
import { basename, join, relative, resolve } from 'node:path';
import { CliError, EXIT } from '../exit-codes.ts';
import type { FileVersion } from '../journal/journal.ts';
import { shownUrl } from '../output/shown-url.ts';
import { fileContent } from './file-content.ts';
import { type Found, inspectPath, reasonOf, walkFolder } from './walk-folder.ts';

/** A file to ingest. */
export interface IngestFile {
  /** As the user named it. */
  label: string;
  /** Its path and the version that was found there; null for a stream. */
  source: { path: string; version: FileVersion } | null;
  /** The file name for the service; undefined for a stream without one. */
  filename: string | undefined;
  /** Null if the length is unknown until the end, as with a pipe. */
  bytes: number | null;
  /** The content. A file can be opened repeatedly, a pipe can be read once. */
  content: AsyncIterable<Uint8Array> | (() => AsyncIterable<Uint8Array>);
}

/** A URL that the service fetches itself. */
export interface RemoteFile {
  label: string;
  url: string;
  filename: string | undefined;
}

/** A file or folder that could not be inspected, or a URL that cannot be fetched. */
export interface UnreadableFile {
  label: string;
  failure: { code: string; message: string };
}

/** A path or URL that the user named. */
export interface Root {
  /** As the user named it; a URL without its secrets. */
  label: string;
  /** Absolute; for a URL, the URL itself. */
  path: string;
  kind: 'file' | 'folder' | 'url';
}

/** The scheme of a URL, such as `https:`; null for a path. */
function schemeOf(label: string): string | null {
  return /^([a-z][a-z\d+.-]+:)\/\//i.exec(label)?.[1]?.toLowerCase() ?? null;
}

/**
 * Inspects the paths that the user named.
 * @param cwd folder against which relative paths are resolved
 * @throws CliError with every path that does not exist or holds no files; nothing has been sent by then
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
      problems.length === 1 ? `${problems[0]}` : 'Some of the paths cannot be ingested; nothing was sent.',
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
    // Opening a pipe without a writer blocks, and Ctrl-C could not end it. With `mds ingest - < pipe` the shell opens it.
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
 * Finds the files under the named paths, each when its turn comes. A folder stands for all files in it and its subfolders.
 * Hidden files (with a leading dot) in folders are skipped, and links to folders are not followed.
 */
export async function* filesOf(roots: readonly Root[]): AsyncGenerator<IngestFile | RemoteFile | UnreadableFile> {
  // A path that is also named itself is skipped here, so that it is sent once.
  const named = new Set(roots.map(({ path }) => path));
  for (const { label, path, kind } of roots) {
    if (kind === 'url') {
      yield remoteFile(label, path);
      continue;
    }
    if (kind === 'file') {
      // A link that the user names is followed wherever it leads.
      const found = await inspectPath(path);
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
  const message = `The service fetches http: and https: URLs, but not ${scheme} URLs. Name a local file by its path.`;
  return { label, failure: { code: 'source_not_allowed', message } };
}

/** Makes a found file ready to be sent. */
export function fileAt(label: string, { path, stats }: Found & { kind: 'file' }): IngestFile {
  const version = { bytes: stats.size, mtimeMs: stats.mtimeMs };
  return {
    label,
    source: { path, version },
    filename: basename(path),
    bytes: stats.size,
    // A generator opens the file when its first piece is read, which may never happen.
    content: () => fileContent(path, version),
  };
}

function unreadable(label: string, found: Found): UnreadableFile {
  const why = found.kind === 'unreadable' ? reasonOf(found.error, found.path) : 'it is no longer a file';
  return { label, failure: { code: 'file_unreadable', message: `It cannot be read: ${why}.` } };
}
