import { and, eq, sql } from 'drizzle-orm';
import type { MediaFailureRecord } from '../media-repository.ts';
import type { EventWriter } from './event-repository.ts';
import { writeMediaEvent } from './media-events.ts';
import { failRenditions } from './rendition-rows.ts';
import { jobs, media, mediaRenditions } from './schema.ts';
import type { Transaction } from './transaction.ts';

/** Ends a media object's processing for good; the caller holds the transaction and the right to do so. */
export function failMedia(
  tx: Transaction,
  events: EventWriter,
  ending: { jobId: number; mediaId: string; attempt: number; failure: MediaFailureRecord; nowMs: number },
): void {
  // Before the media object itself, as what became ready of one is told before it is.
  failRenditions(tx, events, and(eq(mediaRenditions.mediaId, ending.mediaId), eq(mediaRenditions.state, 'pending')), {
    reason: ending.failure.message,
    updatedAtMs: ending.nowMs,
  });
  const failed = tx
    .update(media)
    .set({
      // A media object that was ready goes on being delivered with what it has.
      status: sql`CASE ${media.status} WHEN 'ready' THEN 'ready' ELSE 'failed' END`,
      failure: ending.failure,
      attempts: ending.attempt,
    })
    .where(eq(media.id, ending.mediaId))
    .returning()
    .get();
  if (failed?.status === 'failed') writeMediaEvent(tx, events, failed, 'media.failed');
  tx.delete(jobs).where(eq(jobs.id, ending.jobId)).run();
}
