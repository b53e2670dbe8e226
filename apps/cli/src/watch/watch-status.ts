import { access, constants } from 'node:fs/promises';
import { basename, relative } from 'node:path';
import type { Context } from '../context.ts';
import { type Found, reasonOf, walkFolder } from '../ingest/walk-folder.ts';
import { type JournalEntry, readJournal } from '../journal/journal-file.ts';
import { counted } from '../output/quantities.ts';
import { shortMessage } from '../output/short-message.ts';
import { isTemporaryName } from './temporary-name.ts';

/** Which watch is asked about. */
export interface WatchStatusOf {
  /** The folder, as its user named it. */
  label: string;
  /** Absolute. */
  folder: string;
  journal: string;
  /** Paths that are not watched. */
  leaveOut: readonly string[];
}

/**
 * Tells how a watch stands: how much was accepted, what waits, what was refused or cannot be read, and why. Reads the journal and the
 * folder; a watch that runs is not disturbed.
 */
export async function printWatchStatus(context: Context, { label, folder, journal, leaveOut }: WatchStatusOf) {
  const entries = (await readJournal(journal))?.entries ?? new Map<string, JournalEntry>();
  const all = [...entries.values()];
  const refused = all.filter(({ state }) => state === 'refused');
  const accepted = all.length - refused.length;
  const { waiting, unreadable } = await lookInto(folder, leaveOut, entries);
  const rows = [
    ...unreadable.map(({ file, message }) => ({ code: 'file_unreadable', at: '', path: file, message })),
    ...refused,
  ];
  context.list({
    rows,
    columns: COLUMNS,
    json: { folder: label, journal, accepted, waiting, refused: refused.map(jsonOf), unreadable },
    empty: 'Nothing was refused, and all can be read.',
  });
  const counts = `${waiting} waiting, ${refused.length} refused, ${unreadable.length} unreadable`;
  context.note(`${label}: ${counted(accepted, 'file')} ingested and still there, ${counts}.`);
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

/** What of a folder is still to be ingested, and what of it cannot be read. */
async function lookInto(folder: string, leaveOut: readonly string[], entries: ReadonlyMap<string, JournalEntry>) {
  let waiting = 0;
  const unreadable: { file: string; message: string }[] = [];
  for await (const found of walkFolder(folder, { skip: (path) => leaveOut.includes(path) })) {
    if (found.kind === 'folder' || found.kind === 'other' || isTemporaryName(basename(found.path))) continue;
    const file = relative(folder, found.path);
    if (found.kind === 'file' && isKnown(found, entries.get(file))) continue;
    const why = await hindrance(found);
    if (why === null) waiting++;
    else unreadable.push({ file: file || '.', message: `It cannot be read: ${why}.` });
  }
  return { waiting, unreadable };
}

function isKnown({ stats }: Found & { kind: 'file' }, entry: JournalEntry | undefined): boolean {
  return entry?.bytes === stats.size && entry.mtime_ms === stats.mtimeMs;
}

async function hindrance(found: Found): Promise<string | null> {
  if (found.kind === 'unreadable') return reasonOf(found.error, found.path);
  return access(found.path, constants.R_OK).then(
    () => null,
    (error: unknown) => reasonOf(error, found.path),
  );
}
