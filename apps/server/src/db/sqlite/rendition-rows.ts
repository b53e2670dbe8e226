import { and, eq, ne, type SQL } from 'drizzle-orm';
import type { NewRendition } from '../media-repository.ts';
import type { EventWriter } from './event-repository.ts';
import { projectOf } from './media-events.ts';
import { mediaRenditions } from './schema.ts';
import type { Transaction } from './transaction.ts';

/** Renditions of one medium, to be written at one moment. */
export interface RenditionWrite {
  mediaId: string;
  renditions: readonly NewRendition[];
  nowMs: number;
}

/** What tells the renditions of one medium apart. */
export function renditionIdentity(rendition: { name: string; extension: string; revision: string }): string {
  return `${rendition.name}.${rendition.revision}.${rendition.extension}`;
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
  const before = new Map(
    tx
      .select()
      .from(mediaRenditions)
      .where(eq(mediaRenditions.mediaId, mediaId))
      .all()
      .map((row) => [renditionIdentity(row), row]),
  );
  // What was published while the others were made stays as it is: its Last-Modified, above all.
  const changed = renditions.filter((rendition) => {
    const row = before.get(renditionIdentity(rendition));
    return !(row?.state === 'ready' && rendition.state === 'ready' && row.sha256 === rendition.sha256);
  });
  putRenditions(tx, { ...write, renditions: changed });
  const projectId = projectOf(tx, mediaId);
  for (const rendition of changed) {
    const { name, extension, revision, state, reason } = rendition;
    const data = { id: mediaId, name, extension, revision };
    if (state === 'ready') events.append(tx, { projectId, type: 'rendition.ready', data });
    else if (state === 'failed' && before.get(renditionIdentity(rendition))?.state !== 'failed') {
      events.append(tx, { projectId, type: 'rendition.failed', data: { ...data, reason } });
    }
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
  for (const { mediaId: id, name, extension, revision, reason } of failed) {
    const data = { id, name, extension, revision, reason };
    events.append(tx, { projectId: projectOf(tx, id), type: 'rendition.failed', data });
  }
}
