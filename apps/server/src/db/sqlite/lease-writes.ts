import { and, eq, sql } from 'drizzle-orm';
import type { AttemptReport, Lease } from '../job-queue.ts';
import type { MediaRepository, ProcessingResult } from '../media-repository.ts';
import { renditionIdentity } from '../rendition-changes.ts';
import { endAttempt } from './attempts.ts';
import { bumpVersion, type SqliteDatabase } from './database.ts';
import type { EventWriter } from './event-repository.ts';
import { failMedia } from './fail-media.ts';
import { writeMediaEvent } from './media-events.ts';
import { failRenditions, publishRenditions, putRenditions } from './rendition-rows.ts';
import { jobs, media, mediaRenditions, renditionFiles } from './schema.ts';
import { type Transaction, WRITE } from './transaction.ts';

export type LeaseWrites = Pick<MediaRepository, 'start' | 'reserveFiles' | 'publishRendition' | 'publish' | 'fail'>;

/** What a worker writes of the media object that it holds the lease of, each in one transaction. */
export function createLeaseWrites(
  db: SqliteDatabase,
  { events, now }: { events: EventWriter; now: () => number },
): LeaseWrites {
  /** Runs `write` if the lease still stands; the fence of every write that a worker makes. */
  const underLease = (lease: Lease, write: (tx: Transaction) => void): boolean =>
    db.transaction((tx) => {
      const held = tx
        .select({ id: jobs.id })
        .from(jobs)
        .where(and(eq(jobs.id, lease.jobId), eq(jobs.leaseToken, lease.token)))
        .get();
      if (!held) return false;
      write(tx);
      bumpVersion(tx, 'media');
      return true;
    }, WRITE);

  return {
    async start(lease, planned) {
      return underLease(lease, (tx) => {
        const before = tx.select().from(media).where(eq(media.id, lease.mediaId)).get();
        if (before && before.status !== 'ready' && before.status !== 'processing') {
          writeMediaEvent(tx, events, { ...before, status: 'processing' }, 'media.processing');
        }
        tx.update(media)
          // A media object that is ready stays so while it is rendered again.
          .set({
            status: sql`CASE ${media.status} WHEN 'ready' THEN 'ready' ELSE 'processing' END`,
            attempts: lease.attempt,
          })
          .where(eq(media.id, lease.mediaId))
          .run();
        const made = new Set(
          tx
            .select()
            .from(mediaRenditions)
            .where(and(eq(mediaRenditions.mediaId, lease.mediaId), eq(mediaRenditions.state, 'ready')))
            .all()
            .map(renditionIdentity),
        );
        const renditions = planned.filter((rendition) => !made.has(renditionIdentity(rendition)));
        putRenditions(tx, { mediaId: lease.mediaId, renditions, nowMs: now() });
      });
    },

    async reserveFiles(lease, { name, extension, revision }, files) {
      return underLease(lease, (tx) => {
        const { mediaId } = lease;
        const identity = { mediaId, name, extension, revision };
        const where = and(
          eq(renditionFiles.mediaId, mediaId),
          eq(renditionFiles.name, name),
          eq(renditionFiles.revision, revision),
        );
        tx.delete(renditionFiles).where(where).run();
        for (const file of files) {
          tx.insert(renditionFiles)
            .values({ ...file, ...identity })
            .run();
        }
      });
    },

    async publishRendition(lease, rendition) {
      return underLease(lease, (tx) => {
        publishRenditions(tx, events, { mediaId: lease.mediaId, renditions: [rendition], nowMs: now() });
      });
    },

    async publish(lease, result: ProcessingResult, report: AttemptReport | null = null) {
      return underLease(lease, (tx) => {
        publishRenditions(tx, events, { mediaId: lease.mediaId, renditions: result.renditions, nowMs: now() });
        // Made under presets that are no more: nobody will make them.
        const unplanned = and(eq(mediaRenditions.mediaId, lease.mediaId), eq(mediaRenditions.state, 'pending'));
        failRenditions(tx, events, unplanned, {
          reason: 'Its preset does not exist any more.',
          updatedAtMs: now(),
        });
        const before = tx.select({ status: media.status }).from(media).where(eq(media.id, lease.mediaId)).get();
        const published = tx
          .update(media)
          .set({
            status: 'ready',
            failure: null,
            attempts: lease.attempt,
            thumbhash: result.thumbhash,
            warnings: result.warnings,
          })
          .where(eq(media.id, lease.mediaId))
          .returning()
          .get();
        if (published && before?.status !== 'ready') writeMediaEvent(tx, events, published, 'media.ready');
        endAttempt(tx, lease.token, { outcome: 'ready', endedAtMs: now(), report });
        tx.delete(jobs).where(eq(jobs.id, lease.jobId)).run();
      });
    },

    async fail(lease, failure, report = null) {
      return underLease(lease, (tx) => {
        endAttempt(tx, lease.token, { outcome: 'failed', endedAtMs: now(), failure, report });
        failMedia(tx, events, { ...lease, failure, nowMs: now() });
      });
    },
  };
}
