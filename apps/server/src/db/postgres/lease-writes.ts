import { and, eq, sql } from 'drizzle-orm';
import { mediaEvent } from '../event-data.ts';
import type { Lease } from '../job-queue.ts';
import type { MediaRepository } from '../media-repository.ts';
import { renditionIdentity } from '../rendition-changes.ts';
import { endAttempt } from './attempts.ts';
import { failMedia } from './fail-media.ts';
import { lockHeldJob } from './held-job.ts';
import { inChunks } from './in-chunks.ts';
import { failRenditions, publishRenditions, putRenditions } from './rendition-rows.ts';
import { jobs, media, mediaRenditions, renditionFiles } from './schema.ts';
import type { Transaction, Transactions } from './transaction.ts';

export type LeaseWrites = Pick<MediaRepository, 'start' | 'reserveFiles' | 'publishRendition' | 'publish' | 'fail'>;

/** What a worker writes of the media object that it holds the lease of, each in one transaction. */
export function createLeaseWrites({
  transactions,
  now,
}: {
  transactions: Transactions;
  now: () => number;
}): LeaseWrites {
  /** Runs `write` if the lease still stands; the fence of every write that a worker makes. */
  const underLease = (lease: Lease, write: (tx: Transaction) => Promise<void>): Promise<boolean> =>
    transactions.write(async (tx) => {
      if ((await lockHeldJob(tx.db, lease)) === null) return false;
      await write(tx);
      tx.bump('media');
      return true;
    });

  return {
    start: (lease, planned) =>
      underLease(lease, async (tx) => {
        const { mediaId } = lease;
        const [before] = await tx.db.select().from(media).where(eq(media.id, mediaId));
        if (before && before.status !== 'ready' && before.status !== 'processing') {
          tx.tell(mediaEvent('media.processing', { ...before, status: 'processing' }));
        }
        await tx.db
          .update(media)
          // A media object that is ready stays so while it is rendered again.
          .set({
            status: sql`CASE ${media.status} WHEN 'ready' THEN 'ready' ELSE 'processing' END`,
            attempts: lease.attempt,
          })
          .where(eq(media.id, mediaId));
        const stored = await tx.db.select().from(mediaRenditions).where(eq(mediaRenditions.mediaId, mediaId));
        const made = new Set(stored.filter(({ state }) => state === 'ready').map(renditionIdentity));
        const renditions = planned.filter((rendition) => !made.has(renditionIdentity(rendition)));
        await putRenditions(tx, { mediaId, stored, renditions, nowMs: now() });
      }),

    reserveFiles: (lease, { name, extension, revision }, files) =>
      underLease(lease, async ({ db }) => {
        const { mediaId } = lease;
        const ofRendition = and(
          eq(renditionFiles.mediaId, mediaId),
          eq(renditionFiles.name, name),
          eq(renditionFiles.revision, revision),
        );
        await db.delete(renditionFiles).where(ofRendition);
        const rows = files.map((file) => ({ ...file, mediaId, name, extension, revision }));
        for (const chunk of inChunks(rows)) await db.insert(renditionFiles).values(chunk);
      }),

    publishRendition: (lease, rendition) =>
      underLease(lease, (tx) =>
        publishRenditions(tx, { mediaId: lease.mediaId, renditions: [rendition], nowMs: now() }),
      ),

    publish: (lease, { renditions, thumbhash, warnings }, report = null) =>
      underLease(lease, async (tx) => {
        const { mediaId } = lease;
        await publishRenditions(tx, { mediaId, renditions, nowMs: now() });
        // Made under presets that are no more: nobody will make them.
        const unplanned = and(eq(mediaRenditions.mediaId, mediaId), eq(mediaRenditions.state, 'pending'));
        await failRenditions(tx, unplanned, { reason: 'Its preset does not exist any more.', updatedAtMs: now() });
        const [before] = await tx.db.select({ status: media.status }).from(media).where(eq(media.id, mediaId));
        const [published] = await tx.db
          .update(media)
          .set({ status: 'ready', failure: null, attempts: lease.attempt, thumbhash, warnings })
          .where(eq(media.id, mediaId))
          .returning();
        if (published && before?.status !== 'ready') tx.tell(mediaEvent('media.ready', published));
        await endAttempt(tx, lease.token, { outcome: 'ready', endedAtMs: now(), report });
        await tx.db.delete(jobs).where(eq(jobs.id, lease.jobId));
      }),

    fail: (lease, failure, report = null) =>
      underLease(lease, async (tx) => {
        await endAttempt(tx, lease.token, { outcome: 'failed', endedAtMs: now(), failure, report });
        await failMedia(tx, { ...lease, failure, nowMs: now() });
      }),
  };
}
