import { and, eq, isNotNull } from 'drizzle-orm';
import { originalKey } from '../../base/object-key.ts';
import { mediaEvent } from '../event-data.ts';
import type { MediaRecord, MediaRepository, NewMedia } from '../media-repository.ts';
import { lockNames } from './advisory-locks.ts';
import { enqueue } from './enqueue.ts';
import { isAnyOf } from './is-any-of.ts';
import { mediaOfContent, mediaOfKey } from './media-queries.ts';
import { dropPieceDigests, largeContents } from './piece-digest-cleanup.ts';
import { referencedAmong, renditionOfFile } from './rendition-queries.ts';
import { failRenditions } from './rendition-rows.ts';
import { contentRemovals, media, mediaRenditions, renditionFiles } from './schema.ts';
import type { Transaction, Transactions } from './transaction.ts';

export type MediaWrites = Pick<MediaRepository, 'accept' | 'retry' | 'rederive' | 'delete'>;

/** What becomes of media on somebody's word: they are taken in, made again and deleted, each in one transaction. */
export function createMediaWrites({
  transactions,
  now,
}: {
  transactions: Transactions;
  now: () => number;
}): MediaWrites {
  return {
    accept: (record, options) =>
      transactions.write(async (tx) => {
        const existing = await findExisting(tx, record, options);
        if (existing) return { media: existing, created: false };
        const [row] = await tx.db
          .insert(media)
          .values({ ...record, status: 'queued', attempts: 0, idempotencyKey: options.idempotencyKey })
          .returning();
        const accepted = row as MediaRecord;
        tx.tell(mediaEvent('media.created', accepted));
        await enqueue(tx, { mediaIds: [record.id], priority: options.priority, nowMs: now() });
        tx.bump('media');
        return { media: accepted, created: true };
      }),

    retry: (id) =>
      transactions.write(async (tx) => {
        const [row] = await tx.db
          .select({ status: media.status })
          .from(media)
          .where(eq(media.id, id))
          .for('no key update');
        if (row === undefined) return false;
        const failed = and(eq(mediaRenditions.mediaId, id), eq(mediaRenditions.state, 'failed'));
        const isReadyInPart = row.status === 'ready' && (await tx.db.$count(mediaRenditions, failed)) > 0;
        if (row.status !== 'failed' && !isReadyInPart) return false;
        // Nobody looks at what a ready media object failed of last time while that is made again.
        const again = row.status === 'failed' ? ({ status: 'queued', attempts: 0 } as const) : {};
        await tx.db
          .update(media)
          .set({ ...again, failure: null })
          .where(eq(media.id, id));
        await tx.db.update(mediaRenditions).set({ state: 'pending', reason: null, updatedAtMs: now() }).where(failed);
        await enqueue(tx, { mediaIds: [id], nowMs: now() });
        tx.bump('media');
        return true;
      }),

    rederive: (objectKeys) =>
      transactions.write(async (tx) => {
        const { db } = tx;
        if (objectKeys.length === 0) return [];
        const ofFiles = await db
          .select({ key: mediaRenditions.objectKey })
          .from(renditionFiles)
          .innerJoin(mediaRenditions, renditionOfFile)
          .where(isAnyOf(renditionFiles.objectKey, objectKeys));
        const keys = [...new Set([...objectKeys, ...ofFiles.flatMap(({ key }) => (key === null ? [] : [key]))])];
        const lost = and(isAnyOf(mediaRenditions.objectKey, keys), eq(mediaRenditions.state, 'ready'));
        const rows = await db.selectDistinct({ id: mediaRenditions.mediaId }).from(mediaRenditions).where(lost);
        // In one order, and before their renditions, as everybody locks them.
        const locked = await db
          .select({ id: media.id })
          .from(media)
          .where(
            isAnyOf(
              media.id,
              rows.map(({ id }) => id),
            ),
          )
          .orderBy(media.id)
          .for('no key update');
        const mediaIds = locked.map(({ id }) => id);
        const ofLocked = and(isAnyOf(mediaRenditions.mediaId, mediaIds), lost);
        const unmade = { sha256: null, bytes: null, files: null, width: null, height: null, updatedAtMs: now() };
        // Today's presets do not make a superseded revision again.
        await failRenditions(tx, and(ofLocked, eq(mediaRenditions.current, false)), {
          ...unmade,
          reason: 'The stored rendition was damaged, and its preset has changed since.',
        });
        await db
          .update(mediaRenditions)
          .set({ ...unmade, state: 'pending', reason: null })
          .where(ofLocked);
        await enqueue(tx, { mediaIds, nowMs: now() });
        if (mediaIds.length > 0) tx.bump('media');
        return mediaIds;
      }),

    delete: (id) =>
      transactions.write(async (tx) => {
        const { db } = tx;
        const [row] = await db.select().from(media).where(eq(media.id, id)).for('update');
        if (!row) return null;
        const keys = new Set([originalKey(row.sha256)]);
        for (const table of [mediaRenditions, renditionFiles]) {
          const ofMedia = and(eq(table.mediaId, id), isNotNull(table.objectKey));
          const rows = await db.selectDistinct({ key: table.objectKey }).from(table).where(ofMedia);
          for (const { key } of rows) if (key !== null) keys.add(key);
        }
        const large = await largeContents(tx, id);
        await db.delete(media).where(eq(media.id, id));
        const removal = { sha256: row.sha256, sinceMs: now() };
        await db
          .insert(contentRemovals)
          .values(removal)
          .onConflictDoUpdate({ target: contentRemovals.sha256, set: removal });
        await dropPieceDigests(tx, large);
        tx.tell(mediaEvent('media.deleted', row));
        tx.bump('media');
        const referenced = await referencedAmong(db, [...keys]);
        return { media: row, orphans: [...keys].filter((key) => !referenced.has(key)) };
      }),
  };
}

/**
 * The media object that an upload has made already: by its idempotency key, or by its bytes unless another is wanted. From then on, nobody
 * else can make one of the same until the transaction ends.
 */
async function findExisting(
  { db }: Transaction,
  { projectId, sha256 }: NewMedia,
  { duplicate, idempotencyKey }: { duplicate: 'existing' | 'allow'; idempotencyKey: string | null },
): Promise<MediaRecord | null> {
  const names = duplicate === 'allow' ? [] : [`medium of ${projectId} ${sha256}`];
  if (idempotencyKey !== null) names.push(`medium of ${projectId} by key ${idempotencyKey}`);
  await lockNames(db, names);
  const made = idempotencyKey === null ? null : await mediaOfKey(db, projectId, idempotencyKey);
  return made ?? (duplicate === 'allow' ? null : mediaOfContent(db, projectId, sha256));
}
