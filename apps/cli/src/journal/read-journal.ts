import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { CliError } from '../exit-codes.ts';
import type { JournalEntry, JournalOwner } from './journal.ts';

/** The first line of a journal. */
export interface JournalHeader extends JournalOwner {
  /** Random; keys of requests are made of it. */
  id: string;
}

/** A journal as it lies on the disk. */
export interface JournalContent {
  header: JournalHeader;
  /** The latest of each path. */
  entries: Map<string, JournalEntry>;
  lines: number;
  damagedLines: number;
  /** Whether its last line has no end: the program died while it wrote it. */
  torn: boolean;
}

/** The layout of the lines; a program that does not know it keeps away. */
export const JOURNAL_VERSION = 1;

/**
 * Reads a journal line by line.
 * @returns null where there is none, or an empty file
 * @throws CliError where the file is something else, which is not to be written over
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
  // What was cut off when the program died is no damage to speak of.
  return { header, entries, lines, damagedLines: torn ? Math.max(0, damagedLines - 1) : damagedLines, torn };
}

/** The lines of a file, one without an end at its end too. Not readline: it takes U+2028 for the end of one. */
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
  return new CliError(`${file} is not a journal of mds, and is left as it is.`, {
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
  const said = { media_id: text(media_id), code: text(code), message: text(message), at: text(at) ?? '' };
  return { path, bytes, mtime_ms, state, ...said };
}

function parsed(line: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}
