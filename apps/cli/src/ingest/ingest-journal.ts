import { resolve } from 'node:path';
import type { Client } from '@mds/client';
import type { Context } from '../context.ts';
import { defaultJournal } from '../journal/default-journal.ts';
import { type Journal, openJournal } from '../journal/journal.ts';
import { counted } from '../output/quantities.ts';
import type { Root } from './find-files.ts';

/** Fewer files than this, named one by one, need no journal. */
const MIN_FILES = 16;
/** Number of recorded media to check at the service. */
const SAMPLES = 3;

/**
 * Opens the journal of an ingest: the named one, or the default one of these paths if they include a folder or are many.
 * @returns null if the ingest needs no journal
 * @throws CliError if another program uses the journal
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
  else if (!(await matchesService(client, journal, io.signal))) {
    context.note('The service has none of the files that were ingested before; all files are sent again.');
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
 * Whether the service still has recorded media. Its data may have been replaced, or the token may belong to another project. Then
 * the journal would wrongly keep files out. Single deleted media do not count, unless all checked ones are gone.
 */
async function matchesService(client: Client, journal: Journal, signal: AbortSignal): Promise<boolean> {
  const { isNotFoundError } = await import('@mds/client');
  const ids = sampleMediaIds(journal);
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

/** Ids of a few recorded media: the first, one in the middle, and the last. */
export function sampleMediaIds(journal: Journal): string[] {
  const ids = [...journal.entries()].flatMap(({ media_id: id }) => id ?? []);
  const at = Array.from({ length: SAMPLES }, (_, n) => Math.floor(((ids.length - 1) * n) / (SAMPLES - 1)));
  return [...new Set(at)].flatMap((index) => ids[index] ?? []);
}
