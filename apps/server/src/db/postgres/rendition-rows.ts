import { and, eq, getTableColumns, type SQL, sql } from 'drizzle-orm';
import { renditionEvent } from '../event-data.ts';
import type { NewRendition, RenditionRecord } from '../media-repository.ts';
import { changesOf, settleCurrent } from '../rendition-changes.ts';
import { inChunks } from './in-chunks.ts';
import { isAnyOf } from './is-any-of.ts';
import { media, mediaRenditions } from './schema.ts';
import type { Transaction } from './transaction.ts';

const { mediaId: mediaObject, name, extension, revision, ...others } = getTableColumns(mediaRenditions);
/** What tells renditions apart. */
const IDENTITY = [mediaObject, name, extension, revision] as const;
/** What is written over where a rendition is there already. */
const WRITTEN = Object.fromEntries(
  Object.entries(others).map(([key, column]) => [key, sql`excluded.${sql.identifier(column.name)}`]),
);

const isRendition = (it: { mediaId: string; name: string; extension: string; revision: string }) =>
  and(eq(mediaObject, it.mediaId), eq(name, it.name), eq(extension, it.extension), eq(revision, it.revision));

/** Renditions of one media object, to be written at one moment. */
export interface RenditionWrite {
  mediaId: string;
  /** Every rendition that the media object has. */
  stored: readonly RenditionRecord[];
  renditions: readonly NewRendition[];
  nowMs: number;
}

/** Writes renditions over what there was of the same identity, and settles which revision is the current one. */
export async function putRenditions({ db }: Transaction, write: RenditionWrite): Promise<void> {
  const { mediaId, stored, renditions, nowMs } = write;
  const { rows, superseded } = settleCurrent(stored, renditions);
  for (const { name, extension, revision } of superseded) {
    const it = { mediaId, name, extension, revision };
    await db.update(mediaRenditions).set({ current: false }).where(isRendition(it));
  }
  for (const chunk of inChunks(rows)) {
    const values = chunk.map((row) => ({ ...row, mediaId, updatedAtMs: nowMs }));
    await db
      .insert(mediaRenditions)
      .values(values)
      .onConflictDoUpdate({ target: [...IDENTITY], set: WRITTEN });
  }
}

/** Writes renditions, and tells of those that became ready or failed. */
export async function publishRenditions(tx: Transaction, write: Omit<RenditionWrite, 'stored'>): Promise<void> {
  const { mediaId, renditions } = write;
  const stored = await tx.db.select().from(mediaRenditions).where(eq(mediaRenditions.mediaId, mediaId));
  const changes = changesOf(stored, renditions);
  await putRenditions(tx, { ...write, stored, renditions: changes.map(({ rendition }) => rendition) });
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

/** The projects whose events tell of these media; null where a media object is gone. */
async function projectsOf({ db }: Transaction, mediaIds: string[]): Promise<(mediaId: string) => string | null> {
  const rows = await db
    .select({ id: media.id, projectId: media.projectId })
    .from(media)
    .where(isAnyOf(media.id, mediaIds));
  const projects = new Map(rows.map(({ id, projectId }) => [id, projectId]));
  return (mediaId) => projects.get(mediaId) ?? null;
}
