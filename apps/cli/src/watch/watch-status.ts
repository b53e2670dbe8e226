import type { Context } from '../context.ts';
import type { JournalEntry } from '../journal/journal.ts';
import { readJournal } from '../journal/read-journal.ts';
import { counted } from '../output/quantities.ts';

/** Tells what a watch remembers: how much was accepted, and what was refused and why. Reads; a watch that runs is not disturbed. */
export async function printWatchStatus(context: Context, folder: string, file: string): Promise<void> {
  const entries = (await readJournal(file))?.entries ?? new Map<string, JournalEntry>();
  const all = [...entries.values()];
  const refused = all.filter(({ state }) => state === 'refused');
  const accepted = all.length - refused.length;
  context.list({
    rows: refused,
    columns: COLUMNS,
    json: { folder, journal: file, accepted, refused: refused.map(jsonOf) },
    empty: 'Nothing was refused.',
  });
  context.note(`${folder}: ${counted(accepted, 'file')} ingested and still there, ${refused.length} refused.`);
  context.note(`The journal is ${file}.`);
}

const COLUMNS = [
  { title: 'CODE', text: ({ code }: JournalEntry) => code ?? '' },
  { title: 'REFUSED', text: ({ at }: JournalEntry) => at },
  { title: 'FILE', text: ({ path }: JournalEntry) => path, shrinkTo: 16, keep: 'end' as const },
  { title: 'REASON', text: ({ message }: JournalEntry) => message ?? '', shrinkTo: 16 },
];

function jsonOf({ path, code, message, at, bytes }: JournalEntry) {
  return { file: path, bytes, code, message, refused_at: at };
}
