import { access, constants } from 'node:fs/promises';
import { basename, relative } from 'node:path';
import type { Context } from '../context.ts';
import { type Found, reasonOf, walkFolder } from '../ingest/walk-folder.ts';
import { type JournalEntry, readJournal } from '../journal/journal-file.ts';
import { counted } from '../output/quantities.ts';
import { shortMessage } from '../output/short-message.ts';
import { isTemporaryName } from './temporary-name.ts';

/** Identifies a watch. */
export interface WatchStatusOptions {
  /** The folder, as the user named it. */
  label: string;
  /** Absolute. */
  folder: string;
  journal: string;
  /** Paths that are not watched. */
  leaveOut: readonly string[];
}

/**
 * Prints the state of a watch: how many files were accepted or wait, and which were refused or cannot be read, and why. Reads the
 * journal and the folder only, so a running watch is not disturbed.
 */
export async function printWatchStatus(context: Context, { label, folder, journal, leaveOut }: WatchStatusOptions) {
  const entries = (await readJournal(journal))?.entries ?? new Map<string, JournalEntry>();
  const all = [...entries.values()];
  const refused = all.filter(({ state }) => state === 'refused');
  const accepted = all.length - refused.length;
  const { waiting, unreadable } = await inspectFolder(folder, leaveOut, entries);
  const rows = [
    ...unreadable.map(({ file, message }) => ({ code: 'file_unreadable', at: '', path: file, message })),
    ...refused,
  ];
  context.list({
    rows,
    columns: COLUMNS,
    json: { folder: label, journal, accepted, waiting, refused: refused.map(jsonOf), unreadable },
    empty: 'No file was refused, and all can be read.',
  });
  const counts = `${waiting} waiting, ${refused.length} refused, ${unreadable.length} unreadable`;
  context.note(`${label}: ${counted(accepted, 'file')} ingested and still in the folder, ${counts}.`);
  context.note(`The journal is ${journal}.`);
}

const COLUMNS = [
  { title: 'CODE', text: ({ code }: Row) => code ?? '' },
  { title: 'REFUSED', text: ({ at }: Row) => at },
  { title: 'FILE', text: ({ path }: Row) => path, shrinkTo: 16, keep: 'end' as const },
  { title: 'REASON', text: ({ message }: Row) => shortMessage(message ?? ''), shrinkTo: 16 },
];

type Row = Pick<JournalEntry, 'code' | 'at' | 'path' | 'message'>;

function jsonOf({ path, code, message, at, bytes }: JournalEntry) {
  return { file: path, bytes, code, message, refused_at: at };
}

/** Counts the files that are not ingested yet, and lists those that cannot be read. */
async function inspectFolder(folder: string, leaveOut: readonly string[], entries: ReadonlyMap<string, JournalEntry>) {
  let waiting = 0;
  const unreadable: { file: string; message: string }[] = [];
  for await (const found of walkFolder(folder, { skip: (path) => leaveOut.includes(path) })) {
    if (found.kind === 'folder' || found.kind === 'other' || isTemporaryName(basename(found.path))) continue;
    const file = relative(folder, found.path);
    if (found.kind === 'file' && isKnown(found, entries.get(file))) continue;
    const why = await readProblem(found);
    if (why === null) waiting++;
    else unreadable.push({ file: file || '.', message: `It cannot be read: ${why}.` });
  }
  return { waiting, unreadable };
}

function isKnown({ stats }: Found & { kind: 'file' }, entry: JournalEntry | undefined): boolean {
  return entry?.bytes === stats.size && entry.mtime_ms === stats.mtimeMs;
}

async function readProblem(found: Found): Promise<string | null> {
  if (found.kind === 'unreadable') return reasonOf(found.error, found.path);
  return access(found.path, constants.R_OK).then(
    () => null,
    (error: unknown) => reasonOf(error, found.path),
  );
}
