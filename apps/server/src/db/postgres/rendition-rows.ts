import { and, eq, inArray, ne, type SQL, sql } from 'drizzle-orm';
import { renditionEvent } from '../event-data.ts';
import type { NewRendition } from '../media-repository.ts';
import { changesOf } from '../rendition-changes.ts';
import { media, mediaRenditions } from './schema.ts';
import type { Transaction } from './transaction.ts';

/** Renditions of one medium, to be written at one moment. */
export interface RenditionWrite {
  mediaId: string;
  renditions: readonly NewRendition[];
  nowMs: number;
}

/** Writes renditions over what there was of the same identity, and settles which revision is the current one. */
export async function putRenditions(
  { db }: Transaction,
  { mediaId, renditions, nowMs }: RenditionWrite,
): Promise<void> {
  for (const rendition of renditions) {
    const row = { ...rendition, mediaId, updatedAtMs: nowMs };
    const siblings = and(
      eq(mediaRenditions.mediaId, mediaId),
      eq(mediaRenditions.name, row.name),
      eq(mediaRenditions.extension, row.extension),
      ne(mediaRenditions.revision, row.revision),
    );
    if (row.current && row.state === 'ready') {
      await db.update(mediaRenditions).set({ current: false }).where(siblings);
    } else if (row.current) {
      // Until a new revision is ready, paths without a revision go on delivering the old one.
      const delivered = and(siblings, eq(mediaRenditions.current, true), eq(mediaRenditions.state, 'ready'));
      row.current = (await db.select({ one: sql`1` }).from(mediaRenditions).where(delivered)).length === 0;
    }
    await db
      .insert(mediaRenditions)
      .values(row)
      .onConflictDoUpdate({
        target: [mediaRenditions.mediaId, mediaRenditions.name, mediaRenditions.extension, mediaRenditions.revision],
        set: row,
      });
  }
}

/** Writes renditions, and tells of those that became ready or failed. */
export async function publishRenditions(tx: Transaction, write: RenditionWrite): Promise<void> {
  const { mediaId, renditions } = write;
  const stored = await tx.db.select().from(mediaRenditions).where(eq(mediaRenditions.mediaId, mediaId));
  const changes = changesOf(stored, renditions);
  await putRenditions(tx, { ...write, renditions: changes.map(({ rendition }) => rendition) });
  const projectOf = await projectsOf(tx, [mediaId]);
  const of = { projectId: projectOf(mediaId), mediaId };
  for (const { rendition, newlyFailed } of changes) {
    if (rendition.state === 'ready') tx.tell(renditionEvent('rendition.ready', of, rendition));
    else if (newlyFailed) tx.tell(renditionEvent('rendition.failed', of, rendition));
  }
}

/** Marks renditions as failed and tells of each, in the caller's transaction. */
export async function failRenditions(
  tx: Transaction,
  which: SQL | undefined,
  change: Partial<typeof mediaRenditions.$inferInsert> & { reason: string },
): Promise<void> {
  const failed = await tx.db
    .update(mediaRenditions)
    .set({ ...change, state: 'failed' })
    .where(which)
    .returning();
  if (failed.length === 0) return;
  const projectOf = await projectsOf(
    tx,
    failed.map(({ mediaId }) => mediaId),
  );
  for (const row of failed) {
    tx.tell(renditionEvent('rendition.failed', { projectId: projectOf(row.mediaId), mediaId: row.mediaId }, row));
  }
}

/** The projects whose events tell of these media; null where a medium is gone. */
async function projectsOf({ db }: Transaction, mediaIds: string[]): Promise<(mediaId: string) => string | null> {
  const rows = await db
    .select({ id: media.id, projectId: media.projectId })
    .from(media)
    .where(inArray(media.id, mediaIds));
  const projects = new Map(rows.map(({ id, projectId }) => [id, projectId]));
  return (mediaId) => projects.get(mediaId) ?? null;
}
