import { open, rename } from 'node:fs/promises';
import { dirname } from 'node:path';
import { jsonText } from '../output/json.ts';
import type { JournalEntry } from './journal.ts';
import { JOURNAL_VERSION, type JournalHeader } from './read-journal.ts';

/** Lines that are written in one piece. */
const BATCH = 1_000;

/** Writes a journal anew, whole or not at all: beside it, synced, then put in its place. */
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

/** A new name is on the disk when its folder is. Windows has no such thing and says so. */
async function syncFolder(folder: string): Promise<void> {
  if (process.platform === 'win32') return;
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
