import { and, eq, ne, type SQL } from 'drizzle-orm';
import { renditionEvent } from '../event-data.ts';
import type { NewRendition } from '../media-repository.ts';
import { changesOf } from '../rendition-changes.ts';
import type { EventWriter } from './event-repository.ts';
import { projectOf } from './media-events.ts';
import { mediaRenditions } from './schema.ts';
import type { Transaction } from './transaction.ts';

/** Renditions of one media object, to be written at one moment. */
export interface RenditionWrite {
  mediaId: string;
  renditions: readonly NewRendition[];
  nowMs: number;
}

/** Writes renditions over what there was of the same identity, and settles which revision is the current one. */
export function putRenditions(tx: Transaction, { mediaId, renditions, nowMs }: RenditionWrite): void {
  for (const rendition of renditions) {
    const row = { ...rendition, mediaId, updatedAtMs: nowMs };
    const siblings = and(
      eq(mediaRenditions.mediaId, mediaId),
      eq(mediaRenditions.name, row.name),
      eq(mediaRenditions.extension, row.extension),
      ne(mediaRenditions.revision, row.revision),
    );
    if (row.current && row.state === 'ready') {
      tx.update(mediaRenditions).set({ current: false }).where(siblings).run();
    } else if (row.current) {
      // Until a new revision is ready, paths without a revision go on delivering the old one.
      const delivered = and(siblings, eq(mediaRenditions.current, true), eq(mediaRenditions.state, 'ready'));
      row.current = tx.select().from(mediaRenditions).where(delivered).get() === undefined;
    }
    tx.insert(mediaRenditions)
      .values(row)
      .onConflictDoUpdate({
        target: [mediaRenditions.mediaId, mediaRenditions.name, mediaRenditions.extension, mediaRenditions.revision],
        set: row,
      })
      .run();
  }
}

/** Writes renditions, and tells of those that became ready or failed. */
export function publishRenditions(tx: Transaction, events: EventWriter, write: RenditionWrite): void {
  const { mediaId, renditions } = write;
  const stored = tx.select().from(mediaRenditions).where(eq(mediaRenditions.mediaId, mediaId)).all();
  const changes = changesOf(stored, renditions);
  putRenditions(tx, { ...write, renditions: changes.map(({ rendition }) => rendition) });
  const of = { projectId: projectOf(tx, mediaId), mediaId };
  for (const { rendition, newlyFailed } of changes) {
    if (rendition.state === 'ready') events.append(tx, renditionEvent('rendition.ready', of, rendition));
    else if (newlyFailed) events.append(tx, renditionEvent('rendition.failed', of, rendition));
  }
}

/** Marks renditions as failed and tells of each, in the caller's transaction. */
export function failRenditions(
  tx: Transaction,
  events: EventWriter,
  which: SQL | undefined,
  change: Partial<typeof mediaRenditions.$inferInsert> & { reason: string },
): void {
  const failed = tx
    .update(mediaRenditions)
    .set({ ...change, state: 'failed' })
    .where(which)
    .returning()
    .all();
  for (const row of failed) {
    const of = { projectId: projectOf(tx, row.mediaId), mediaId: row.mediaId };
    events.append(tx, renditionEvent('rendition.failed', of, row));
  }
}
