import { and, eq, getTableColumns, type SQL, sql } from 'drizzle-orm';
import type { Dialect, Transaction } from './dialect.ts';
import { renditionEvent } from './event-data.ts';
import type { NewRendition, RenditionRecord } from './media-repository.ts';
import { changesOf, settleCurrent } from './rendition-changes.ts';
import type { Tables } from './tables.ts';

/** Renditions of one media object, to be written at one moment. */
export interface RenditionWrite {
  mediaId: string;
  /** Every rendition that the media object has. */
  stored: readonly RenditionRecord[];
  renditions: readonly NewRendition[];
  nowMs: number;
}

/** Writes renditions in the transactions of others. */
export interface RenditionRows {
  /** Every rendition that a media object has. */
  stored(tx: Transaction, mediaId: string): Promise<RenditionRecord[]>;
  /** Writes renditions over those of the same identity, and settles which revision is the current one. */
  put(tx: Transaction, write: RenditionWrite): Promise<void>;
  /** Writes renditions, with an event for each that became ready or failed. */
  publish(tx: Transaction, write: Omit<RenditionWrite, 'stored'>): Promise<void>;
  /** Marks renditions as failed, with an event for each. */
  fail(
    tx: Transaction,
    which: SQL | undefined,
    change: Partial<Tables['mediaRenditions']['$inferInsert']> & { reason: string },
  ): Promise<void>;
}

/** Creates {@link RenditionRows}. */
export function createRenditionRows({ tables, isAnyOf, insertAll }: Dialect): RenditionRows {
  const { media, mediaRenditions } = tables;
  const { mediaId: ofMedia, name, extension, revision, ...others } = getTableColumns(mediaRenditions);
  const identity = [ofMedia, name, extension, revision];
  const overwritten = Object.fromEntries(
    Object.entries(others).map(([key, column]) => [key, sql`excluded.${sql.identifier(column.name)}`]),
  );

  const stored: RenditionRows['stored'] = async ({ db }, mediaId) =>
    db.select().from(mediaRenditions).where(eq(ofMedia, mediaId));

  const put: RenditionRows['put'] = async ({ db }, write) => {
    const { mediaId, nowMs } = write;
    const { rows, superseded } = settleCurrent(write.stored, write.renditions);
    for (const old of superseded) {
      const isOld = and(eq(name, old.name), eq(extension, old.extension), eq(revision, old.revision));
      await db
        .update(mediaRenditions)
        .set({ current: false })
        .where(and(eq(ofMedia, mediaId), isOld));
    }
    const values = rows.map((row) => ({ ...row, mediaId, updatedAtMs: nowMs }));
    await insertAll('put_renditions', values, (some) =>
      db.insert(mediaRenditions).values(some).onConflictDoUpdate({ target: identity, set: overwritten }),
    );
  };

  /** The projects that events about these media belong to; null if a media object is gone. */
  const projectsOf = async ({ db }: Transaction, mediaIds: string[]) => {
    const columns = { id: media.id, projectId: media.projectId };
    const rows = await db.select(columns).from(media).where(isAnyOf(media.id, mediaIds));
    const projects = new Map(rows.map(({ id, projectId }) => [id, projectId]));
    return (mediaId: string) => ({ mediaId, projectId: projects.get(mediaId) ?? null });
  };

  return {
    stored,
    put,

    async publish(tx, write) {
      const { mediaId } = write;
      const before = await stored(tx, mediaId);
      const changes = changesOf(before, write.renditions);
      await put(tx, { ...write, stored: before, renditions: changes.map(({ rendition }) => rendition) });
      const of = (await projectsOf(tx, [mediaId]))(mediaId);
      for (const { rendition, newlyFailed } of changes) {
        if (rendition.state === 'ready') tx.append(renditionEvent('rendition.ready', of, rendition));
        else if (newlyFailed) tx.append(renditionEvent('rendition.failed', of, rendition));
      }
    },

    async fail(tx, which, change) {
      const failing = { ...change, state: 'failed' as const };
      const failed = await tx.db.update(mediaRenditions).set(failing).where(which).returning();
      if (failed.length === 0) return;
      const mediaIds = failed.map(({ mediaId }) => mediaId);
      const of = await projectsOf(tx, [...new Set(mediaIds)]);
      for (const row of failed) tx.append(renditionEvent('rendition.failed', of(row.mediaId), row));
    },
  };
}
