import { and, eq } from 'drizzle-orm';
import { originalKey } from '../../base/object-key.ts';
import type { Acceptance, MediaRecord, MediaRepository } from '../media-repository.ts';
import { bumpVersion, type SqliteDatabase } from './database.ts';
import { enqueue } from './enqueue.ts';
import type { EventWriter } from './event-repository.ts';
import type { GroupCommit } from './group-commit.ts';
import { isAnyOf } from './is-any-of.ts';
import { writeMediaEvent } from './media-events.ts';
import { createKnownMedia, type KnownMedia } from './media-queries.ts';
import { dropPieceDigests, largeContents } from './piece-digest-cleanup.ts';
import { isReferenced, renditionOfFile } from './rendition-queries.ts';
import { failRenditions } from './rendition-rows.ts';
import { contentRemovals, media, mediaRenditions, renditionFiles } from './schema.ts';
import { type Transaction, WRITE } from './transaction.ts';

export type MediaWrites = Pick<MediaRepository, 'accept' | 'retry' | 'rederive' | 'delete'>;

/** What becomes of media on somebody's word: they are taken in, made again and deleted, each in one transaction. */
export function createMediaWrites(
  db: SqliteDatabase,
  { events, commits, now }: { events: EventWriter; commits: GroupCommit; now: () => number },
): MediaWrites {
  const known = createKnownMedia(db);
  return {
    accept: (record, options) =>
      commits.write((tx): Acceptance => {
        const existing = findExisting(known, record.projectId, record.sha256, options);
        if (existing) return { media: existing, created: false };
        const row = tx
          .insert(media)
          .values({ ...record, status: 'queued', attempts: 0, idempotencyKey: options.idempotencyKey })
          .returning()
          .get();
        writeMediaEvent(tx, events, row, 'media.created');
        enqueue(tx, { mediaId: record.id, priority: options.priority, nowMs: now() });
        bumpVersion(tx, 'media');
        return { media: row, created: true };
      }),

    async retry(id) {
      return db.transaction((tx) => {
        const { changes } = tx
          .update(media)
          .set({ status: 'queued', failure: null, attempts: 0 })
          .where(and(eq(media.id, id), eq(media.status, 'failed')))
          .run();
        if (changes === 0 && !isReadyInPart(tx, id)) return false;
        // Nobody looks at what a ready media object failed of last time while that is made again.
        tx.update(media).set({ failure: null }).where(eq(media.id, id)).run();
        tx.update(mediaRenditions)
          .set({ state: 'pending', reason: null, updatedAtMs: now() })
          .where(and(eq(mediaRenditions.mediaId, id), eq(mediaRenditions.state, 'failed')))
          .run();
        enqueue(tx, { mediaId: id, nowMs: now() });
        bumpVersion(tx, 'media');
        return true;
      }, WRITE);
    },

    async rederive(objectKeys) {
      return db.transaction((tx) => {
        const ofFiles = tx
          .select({ key: mediaRenditions.objectKey })
          .from(renditionFiles)
          .innerJoin(mediaRenditions, renditionOfFile)
          .where(isAnyOf(renditionFiles.objectKey, objectKeys))
          .all()
          .flatMap(({ key }) => (key === null ? [] : [key]));
        const keys = [...new Set([...objectKeys, ...ofFiles])];
        const lost = and(isAnyOf(mediaRenditions.objectKey, keys), eq(mediaRenditions.state, 'ready'));
        const rows = tx.select({ id: mediaRenditions.mediaId }).from(mediaRenditions).where(lost).all();
        const ids = [...new Set(rows.map(({ id }) => id))];
        const unmade = { sha256: null, bytes: null, files: null, width: null, height: null, updatedAtMs: now() };
        // Today's presets do not make a superseded revision again.
        failRenditions(tx, events, and(lost, eq(mediaRenditions.current, false)), {
          ...unmade,
          reason: 'The stored rendition was damaged, and its preset has changed since.',
        });
        tx.update(mediaRenditions)
          .set({ ...unmade, state: 'pending', reason: null })
          .where(lost)
          .run();
        for (const id of ids) enqueue(tx, { mediaId: id, nowMs: now() });
        if (ids.length > 0) bumpVersion(tx, 'media');
        return ids;
      }, WRITE);
    },

    async delete(id) {
      return db.transaction((tx) => {
        const row = tx.select().from(media).where(eq(media.id, id)).get();
        if (!row) return null;
        const keys = tx
          .select({ key: mediaRenditions.objectKey })
          .from(mediaRenditions)
          .where(eq(mediaRenditions.mediaId, id))
          .all()
          .flatMap(({ key }) => (key === null ? [] : [key]));
        const fileKeys = tx
          .select({ key: renditionFiles.objectKey })
          .from(renditionFiles)
          .where(eq(renditionFiles.mediaId, id))
          .all()
          .map(({ key }) => key);
        const large = largeContents(tx, id);
        tx.delete(media).where(eq(media.id, id)).run();
        const removal = { sha256: row.sha256, sinceMs: now() };
        tx.insert(contentRemovals)
          .values(removal)
          .onConflictDoUpdate({ target: contentRemovals.sha256, set: removal })
          .run();
        dropPieceDigests(tx, large);
        writeMediaEvent(tx, events, row, 'media.deleted');
        bumpVersion(tx, 'media');
        const orphans = [...new Set([originalKey(row.sha256), ...keys, ...fileKeys])].filter(
          (key) => !isReferenced(tx, key),
        );
        return { media: row, orphans };
      }, WRITE);
    },
  };
}

/** The media object that an upload has made already: by its idempotency key, or by its bytes unless another is wanted. */
function findExisting(
  known: KnownMedia,
  projectId: string,
  sha256: string,
  { duplicate, idempotencyKey }: { duplicate: 'existing' | 'allow'; idempotencyKey: string | null },
): MediaRecord | null {
  const made = idempotencyKey === null ? null : known.byIdempotencyKey(projectId, idempotencyKey);
  return made ?? (duplicate === 'allow' ? null : known.bySha256(projectId, sha256));
}

/** Whether a media object is ready while some of its renditions are not, for they failed. */
function isReadyInPart(tx: Transaction, id: string): boolean {
  const failed = tx
    .select({ id: media.id })
    .from(media)
    .innerJoin(mediaRenditions, eq(mediaRenditions.mediaId, media.id))
    .where(and(eq(media.id, id), eq(media.status, 'ready'), eq(mediaRenditions.state, 'failed')))
    .limit(1)
    .get();
  return failed !== undefined;
}
