import { and, eq, isNotNull } from 'drizzle-orm';
import { originalKey } from '../base/object-key.ts';
import type { Dialect, Transaction } from './dialect.ts';
import { mediaEvent } from './event-data.ts';
import type { MediaJobs } from './media-jobs.ts';
import type { KnownMedia } from './media-queries.ts';
import type { MediaRecord, MediaRepository, NewMedia } from './media-repository.ts';
import { dropPieceDigests, largeContents } from './piece-digest-repository.ts';
import { referencedAmong, renditionOfFile } from './rendition-queries.ts';
import type { RenditionRows } from './rendition-rows.ts';

/** The parts of the media writes. */
export interface MediaWriteParts {
  dialect: Dialect;
  known: KnownMedia;
  jobs: MediaJobs;
  renditions: RenditionRows;
  /** The wall clock, milliseconds since the epoch. */
  now: () => number;
}

/** Creates the writes that users ask for: media are accepted, made again and deleted, each in one transaction. */
export function createMediaWrites(
  parts: MediaWriteParts,
): Pick<MediaRepository, 'accept' | 'retry' | 'rederive' | 'delete'> {
  const { dialect, known, jobs, renditions, now } = parts;
  const { tables, write, lockRows, isAnyOf, insertAll } = dialect;
  const { contentRemovals, media, mediaRenditions, renditionFiles } = tables;
  return {
    accept: (record, options) =>
      write(
        async (tx) => {
          const existing = await findExisting(known, tx, record, options);
          if (existing) return { media: existing, created: false };
          const { idempotencyKey, priority } = options;
          const made = { status: 'queued' as const, attempts: 0, thumbhash: null, failure: null };
          const accepted = { ...record, ...made, idempotencyKey };
          await insertAll('accept_media', [accepted], (some) => tx.db.insert(media).values(some));
          tx.append(mediaEvent('media.created', accepted));
          await jobs.enqueue(tx, { mediaIds: [record.id], priority, nowMs: now() });
          tx.bump('media');
          return { media: accepted, created: true };
        },
        // Files arrive many at a time.
        { isShared: true },
      ),

    retry: (id) =>
      write(async (tx) => {
        const status = tx.db.select({ status: media.status }).from(media).where(eq(media.id, id));
        const [row] = await lockRows(status, { strength: 'no key update' });
        if (row === undefined) return false;
        const failed = and(eq(mediaRenditions.mediaId, id), eq(mediaRenditions.state, 'failed'));
        const isReadyInPart = row.status === 'ready' && (await tx.db.$count(mediaRenditions, failed)) > 0;
        if (row.status !== 'failed' && !isReadyInPart) return false;
        // The failure of a ready media object is of no interest while it is made again.
        const again = row.status === 'failed' ? ({ status: 'queued', attempts: 0 } as const) : {};
        const change = { ...again, failure: null };
        await tx.db.update(media).set(change).where(eq(media.id, id));
        await tx.db.update(mediaRenditions).set({ state: 'pending', reason: null, updatedAtMs: now() }).where(failed);
        await jobs.enqueue(tx, { mediaIds: [id], nowMs: now() });
        tx.bump('media');
        return true;
      }),

    rederive: (objectKeys) =>
      write(async (tx) => {
        const { db } = tx;
        if (objectKeys.length === 0) return [];
        const ofFiles = await db
          .select({ key: mediaRenditions.objectKey })
          .from(renditionFiles)
          .innerJoin(mediaRenditions, renditionOfFile(tables))
          .where(isAnyOf(renditionFiles.objectKey, objectKeys));
        const keys = [...new Set([...objectKeys, ...ofFiles.flatMap(({ key }) => (key === null ? [] : [key]))])];
        const lost = and(isAnyOf(mediaRenditions.objectKey, keys), eq(mediaRenditions.state, 'ready'));
        const rows = await db.selectDistinct({ id: mediaRenditions.mediaId }).from(mediaRenditions).where(lost);
        const ids = rows.map(({ id }) => id);
        // Media before their renditions, and in one order, as everybody locks them.
        const objects = db.select({ id: media.id }).from(media).where(isAnyOf(media.id, ids)).orderBy(media.id);
        const mediaIds = (await lockRows(objects, { strength: 'no key update' })).map(({ id }) => id);
        const ofLocked = and(isAnyOf(mediaRenditions.mediaId, mediaIds), lost);
        const unmade = { sha256: null, bytes: null, files: null, width: null, height: null, updatedAtMs: now() };
        // Today's presets do not make a superseded revision again.
        const superseded = and(ofLocked, eq(mediaRenditions.current, false));
        const reason = 'The stored rendition was damaged, and its preset has changed since.';
        await renditions.fail(tx, superseded, { ...unmade, reason });
        const pending = { ...unmade, state: 'pending' as const, reason: null };
        await db.update(mediaRenditions).set(pending).where(ofLocked);
        await jobs.enqueue(tx, { mediaIds, nowMs: now() });
        if (mediaIds.length > 0) tx.bump('media');
        return mediaIds;
      }),

    delete: (id) =>
      write(async (tx) => {
        const { db } = tx;
        const [row] = await lockRows(db.select().from(media).where(eq(media.id, id)), { strength: 'update' });
        if (!row) return null;
        const keys = new Set([originalKey(row.sha256)]);
        for (const table of [mediaRenditions, renditionFiles]) {
          const ofMedia = and(eq(table.mediaId, id), isNotNull(table.objectKey));
          const rows = await db.selectDistinct({ key: table.objectKey }).from(table).where(ofMedia);
          for (const { key } of rows) if (key !== null) keys.add(key);
        }
        const large = await largeContents(tx, tables, id);
        await db.delete(media).where(eq(media.id, id));
        const removal = { sha256: row.sha256, sinceMs: now() };
        const noted = db.insert(contentRemovals).values(removal);
        await noted.onConflictDoUpdate({ target: contentRemovals.sha256, set: removal });
        await dropPieceDigests(tx, dialect, large);
        tx.append(mediaEvent('media.deleted', row));
        tx.bump('media');
        const referenced = await referencedAmong(dialect, db, [...keys]);
        return { media: row, orphans: [...keys].filter((key) => !referenced.has(key)) };
      }),
  };
}

/**
 * Finds the media object that an upload already made: by its idempotency key, or by its bytes unless duplicates are
 * allowed. Until the transaction ends, no other transaction can make the same media object.
 */
async function findExisting(
  known: KnownMedia,
  tx: Transaction,
  { projectId, sha256 }: NewMedia,
  { duplicate, idempotencyKey }: { duplicate: 'existing' | 'allow'; idempotencyKey: string | null },
): Promise<MediaRecord | null> {
  // Nodes of earlier versions, which may run at the same time, lock these names.
  const names = duplicate === 'allow' ? [] : [`medium of ${projectId} ${sha256}`];
  if (idempotencyKey !== null) names.push(`medium of ${projectId} by key ${idempotencyKey}`);
  await tx.lock(...names);
  const made = idempotencyKey === null ? null : await known.byIdempotencyKey(projectId, idempotencyKey, tx);
  return made ?? (duplicate === 'allow' ? null : known.bySha256(projectId, sha256, tx));
}
