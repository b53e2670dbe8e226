import { and, eq, sql } from 'drizzle-orm';
import { mediaEvent } from '../event-data.ts';
import type { MediaFailureRecord } from '../media-repository.ts';
import { failRenditions } from './rendition-rows.ts';
import { jobs, media, mediaRenditions } from './schema.ts';
import type { Transaction } from './transaction.ts';

/** Ends a media object's processing for good; the caller holds the transaction and the right to do so. */
export async function failMedia(
  tx: Transaction,
  ending: { jobId: number; mediaId: string; attempt: number; failure: MediaFailureRecord; nowMs: number },
): Promise<void> {
  const { jobId, mediaId, attempt, failure, nowMs } = ending;
  // Before the media object itself, as what became ready of one is told before it is.
  const pending = and(eq(mediaRenditions.mediaId, mediaId), eq(mediaRenditions.state, 'pending'));
  await failRenditions(tx, pending, { reason: failure.message, updatedAtMs: nowMs });
  const [failed] = await tx.db
    .update(media)
    .set({
      // A media object that was ready goes on being delivered with what it has.
      status: sql`CASE ${media.status} WHEN 'ready' THEN 'ready' ELSE 'failed' END`,
      failure,
      attempts: attempt,
    })
    .where(eq(media.id, mediaId))
    .returning();
  if (failed?.status === 'failed') tx.tell(mediaEvent('media.failed', failed));
  await tx.db.delete(jobs).where(eq(jobs.id, jobId));
}
