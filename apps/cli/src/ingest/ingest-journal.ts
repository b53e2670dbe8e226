import { resolve } from 'node:path';
import type { Client } from '@mds/client';
import type { Context } from '../context.ts';
import { defaultJournal } from '../journal/default-journal.ts';
import { type Journal, openJournal } from '../journal/journal.ts';
import { counted } from '../output/quantities.ts';
import type { Root } from './find-files.ts';

/** With fewer files than this, named one by one, there is nothing to go on with. */
const MIN_FILES = 16;
/** So many of the remembered media are asked for. */
const SAMPLES = 3;

/**
 * Opens the journal of an ingest: the one that is named, else the one of these paths, where they are a folder or many.
 * @returns null where nothing is to be remembered
 * @throws CliError where another program works with it
 */
export async function openIngestJournal(
  context: Context,
  client: Client,
  roots: readonly Root[],
  { journal: named, again = false }: { journal?: string; again?: boolean },
): Promise<Journal | null> {
  const { io } = context;
  const many = roots.length >= MIN_FILES || roots.some(({ kind }) => kind === 'folder');
  const paths = roots.map(({ path }) => path);
  const file =
    named === undefined ? (many ? defaultJournal(io, 'ingest', client.baseUrl, paths) : null) : resolve(io.cwd, named);
  if (file === null) return null;
  const journal = await openJournal(file, { kind: 'ingest', service: client.baseUrl, root: null }, io.signal);
  if (again) await journal.forgetAll();
  else if (!(await isKnown(client, journal, io.signal))) {
    context.note('The service has nothing of what was ingested before; everything is sent again.');
    await journal.forgetAll();
  }
  if (journal.damagedLines > 0) {
    context.note(
      `${counted(journal.damagedLines, 'line')} of the journal could not be read; those files are sent again.`,
    );
  }
  return journal;
}

/**
 * Whether the service still is the one that the journal remembers. Its data may have been put aside, or the token be of another
 * project: then a journal that is believed would keep files out. Media that somebody deleted are no sign of that, unless all are.
 */
async function isKnown(client: Client, journal: Journal, signal: AbortSignal): Promise<boolean> {
  const { isNotFoundError } = await import('@mds/client');
  const ids = sampleOf(journal);
  for (const id of ids) {
    try {
      await client.control.media.get(id, { signal });
      return true;
    } catch (error) {
      if (!isNotFoundError(error) || error.code !== 'media_not_found') throw error;
    }
  }
  return ids.length === 0;
}

/** Ids of a few of the media that a journal remembers: the first, one in the middle, the last. */
export function sampleOf(journal: Journal): string[] {
  const ids = [...journal.entries()].flatMap(({ media_id: id }) => id ?? []);
  const at = Array.from({ length: SAMPLES }, (_, n) => Math.floor(((ids.length - 1) * n) / (SAMPLES - 1)));
  return [...new Set(at)].flatMap((index) => ids[index] ?? []);
}
