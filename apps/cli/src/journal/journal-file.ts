import { createReadStream } from 'node:fs';
import { open, rename } from 'node:fs/promises';
import { dirname } from 'node:path';
import { CliError } from '../exit-codes.ts';
import { jsonText } from '../output/json.ts';

/** The outcome of one version of one file: a line of the journal. */
export interface JournalEntry {
  path: string;
  bytes: number;
  mtime_ms: number;
  /** `gone`: the file was accepted, and this program moved or deleted it. */
  state: 'accepted' | 'refused' | 'gone';
  media_id: string | null;
  /** Why it was refused. */
  code: string | null;
  message: string | null;
  at: string;
}

/** The owner of a journal, in its first line. A journal of another service or folder is never written to. */
export interface JournalOwner {
  kind: 'ingest' | 'watch';
  /** Base address of the service. */
  service: string;
  /** The watched folder, to which paths are relative; null if paths are absolute. */
  root: string | null;
}

/** The first line of a journal. */
export interface JournalHeader extends JournalOwner {
  /** Random; idempotency keys are derived from it. */
  id: string;
}

/** The content of a journal file. */
export interface JournalContent {
  header: JournalHeader;
  /** The latest entry of each path. */
  entries: Map<string, JournalEntry>;
  lines: number;
  damagedLines: number;
  /** Whether its last line is incomplete: the program died while it wrote the line. */
  torn: boolean;
}

/** The layout of the lines. A program that does not know it leaves the file alone. */
const JOURNAL_VERSION = 1;

/** Lines that are written in one piece. */
const BATCH = 1_000;

/**
 * Reads a journal line by line.
 * @returns null if there is no file, or an empty one
 * @throws CliError if the file is something else, which must not be overwritten
 */
export async function readJournal(file: string): Promise<JournalContent | null> {
  const ending = await endingOf(file);
  if (ending === 'empty') return null;
  let header: JournalHeader | null = null;
  const entries = new Map<string, JournalEntry>();
  let lines = 0;
  let damagedLines = 0;
  for await (const line of linesOf(file)) {
    if (header === null) {
      header = headerOf(file, line);
      continue;
    }
    lines++;
    const entry = entryOf(line);
    if (entry === null) damagedLines++;
    else if (entry.state === 'gone') entries.delete(entry.path);
    else entries.set(entry.path, entry);
  }
  if (header === null) throw notAJournal(file);
  const torn = ending === 'torn';
  // A line that was cut off when the program died does not count as damaged.
  return { header, entries, lines, damagedLines: torn ? Math.max(0, damagedLines - 1) : damagedLines, torn };
}

/** Rewrites a journal atomically: a new file beside it is synced and then renamed over it. */
export async function rewriteJournal(
  file: string,
  header: JournalHeader,
  entries: Iterable<JournalEntry>,
): Promise<void> {
  const next = `${file}.new`;
  const handle = await open(next, 'w', 0o600);
  try {
    let lines = [jsonText({ mds_journal: JOURNAL_VERSION, ...header }, 0)];
    for (const entry of entries) {
      lines.push(jsonText(entry, 0));
      if (lines.length < BATCH) continue;
      await handle.appendFile(`${lines.join('\n')}\n`);
      lines = [];
    }
    if (lines.length > 0) await handle.appendFile(`${lines.join('\n')}\n`);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(next, file);
  await syncFolder(dirname(file));
}

/** The lines of a file, with an unfinished last one. Not by readline, which also splits at U+2028. */
async function* linesOf(file: string): AsyncGenerator<string> {
  let rest = '';
  for await (const piece of createReadStream(file, { encoding: 'utf8' }) as AsyncIterable<string>) {
    const lines = (rest + piece).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
  if (rest !== '') yield rest;
}

/** Whether a file ends with a whole line. */
async function endingOf(file: string): Promise<'empty' | 'whole' | 'torn'> {
  const handle = await open(file, 'r').catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null;
    throw error;
  });
  if (handle === null) return 'empty';
  try {
    const { size } = await handle.stat();
    if (size === 0) return 'empty';
    const { buffer } = await handle.read(Buffer.alloc(1), 0, 1, size - 1);
    return buffer[0] === 0x0a ? 'whole' : 'torn';
  } finally {
    await handle.close();
  }
}

function headerOf(file: string, line: string): JournalHeader {
  const found = parsed(line);
  if (found === null || !('mds_journal' in found)) throw notAJournal(file);
  if (found['mds_journal'] !== JOURNAL_VERSION) {
    throw new CliError(`${file} is a journal of a newer mds.`, { hints: ['Use that one, or another --journal.'] });
  }
  const { kind, service, root, id } = found;
  if ((kind !== 'ingest' && kind !== 'watch') || typeof service !== 'string' || typeof id !== 'string') {
    throw notAJournal(file);
  }
  return { kind, service, root: typeof root === 'string' ? root : null, id };
}

function notAJournal(file: string): CliError {
  return new CliError(`${file} is not a journal of mds, and was not changed.`, {
    hints: ['Name another file with --journal.'],
  });
}

function entryOf(line: string): JournalEntry | null {
  const found = parsed(line);
  if (found === null) return null;
  const { path, bytes, mtime_ms, state, media_id, code, message, at } = found;
  if (typeof path !== 'string' || typeof bytes !== 'number' || typeof mtime_ms !== 'number') return null;
  if (state !== 'accepted' && state !== 'refused' && state !== 'gone') return null;
  const text = (value: unknown) => (typeof value === 'string' ? value : null);
  const texts = { media_id: text(media_id), code: text(code), message: text(message), at: text(at) ?? '' };
  return { path, bytes, mtime_ms, state, ...texts };
}

function parsed(line: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

/** A rename is durable once its folder is synced. Windows cannot sync folders. */
async function syncFolder(folder: string): Promise<void> {
  if (process.platform === 'win32') return;
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
