import { and, eq, sql } from 'drizzle-orm';
import type { Transaction } from './dialect.ts';
import { mediaEvent } from './event-data.ts';
import type { Lease } from './job-queue.ts';
import type { MediaRepository } from './media-repository.ts';
import type { MediaWriteParts } from './media-writes.ts';
import { renditionIdentity } from './rendition-changes.ts';

/** Creates the writes that a worker makes to the media object of its lease, each in one transaction. */
export function createLeaseWrites(
  parts: Omit<MediaWriteParts, 'known'>,
): Pick<MediaRepository, 'start' | 'reserveFiles' | 'publishRendition' | 'publish' | 'fail'> {
  const { dialect, renditions, now } = parts;
  const { jobs, media, mediaRenditions, renditionFiles } = dialect.tables;

  /** Runs `write` if the lease is still held. It fences every write of a worker. */
  const underLease = (lease: Lease, write: (tx: Transaction) => Promise<void>): Promise<boolean> =>
    dialect.write(async (tx) => {
      if ((await parts.jobs.lockHeld(tx, lease)) === null) return false;
      await write(tx);
      tx.bump('media');
      return true;
    });

  return {
    start: (lease, planned) =>
      underLease(lease, async (tx) => {
        const { mediaId, attempt } = lease;
        const [before] = await tx.db.select().from(media).where(eq(media.id, mediaId));
        if (before && before.status !== 'ready' && before.status !== 'processing') {
          tx.append(mediaEvent('media.processing', { ...before, status: 'processing' }));
        }
        // A media object that is ready stays so while it is rendered again.
        const status = sql`CASE ${media.status} WHEN 'ready' THEN 'ready' ELSE 'processing' END`;
        await tx.db.update(media).set({ status, attempts: attempt }).where(eq(media.id, mediaId));
        const stored = await renditions.stored(tx, mediaId);
        const made = new Set(stored.filter(({ state }) => state === 'ready').map(renditionIdentity));
        const unmade = planned.filter((rendition) => !made.has(renditionIdentity(rendition)));
        await renditions.put(tx, { mediaId, stored, renditions: unmade, nowMs: now() });
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
        await dialect.insertAll('put_rendition_files', rows, (some) => db.insert(renditionFiles).values(some));
      }),

    publishRendition: (lease, rendition) =>
      underLease(lease, (tx) =>
        renditions.publish(tx, { mediaId: lease.mediaId, renditions: [rendition], nowMs: now() }),
      ),

    publish: (lease, { thumbhash, warnings, ...result }, report = null) =>
      underLease(lease, async (tx) => {
        const { mediaId, attempt } = lease;
        await renditions.publish(tx, { mediaId, renditions: result.renditions, nowMs: now() });
        // Their presets no longer exist, so no run will make them.
        const unplanned = and(eq(mediaRenditions.mediaId, mediaId), eq(mediaRenditions.state, 'pending'));
        const reason = 'Its preset does not exist any more.';
        await renditions.fail(tx, unplanned, { reason, updatedAtMs: now() });
        const [before] = await tx.db.select({ status: media.status }).from(media).where(eq(media.id, mediaId));
        const ready = { status: 'ready' as const, failure: null, attempts: attempt, thumbhash, warnings };
        const [published] = await tx.db.update(media).set(ready).where(eq(media.id, mediaId)).returning();
        if (published && before?.status !== 'ready') tx.append(mediaEvent('media.ready', published));
        await parts.jobs.endAttempt(tx, lease.token, { outcome: 'ready', endedAtMs: now(), report });
        await tx.db.delete(jobs).where(eq(jobs.id, lease.jobId));
      }),

    fail: (lease, failure, report = null) =>
      underLease(lease, async (tx) => {
        await parts.jobs.endAttempt(tx, lease.token, { outcome: 'failed', endedAtMs: now(), failure, report });
        await parts.jobs.fail(tx, { ...lease, failure, nowMs: now() });
      }),
  };
}
