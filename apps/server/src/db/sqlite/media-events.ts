import { eq } from 'drizzle-orm';
import type { MediaRecord } from '../media-repository.ts';
import type { EventWriter } from './event-repository.ts';
import { media } from './schema.ts';
import type { Transaction } from './transaction.ts';

/** Writes what became of a medium into the events, in the transaction in which it did. */
export function tellOfMedium(
  tx: Transaction,
  events: EventWriter,
  { id, projectId, status, failure }: Pick<MediaRecord, 'id' | 'projectId' | 'status' | 'failure'>,
  type: 'media.created' | 'media.processing' | 'media.ready' | 'media.failed' | 'media.deleted',
): void {
  events.append(tx, { projectId, type, data: { id, status, error: failure } });
}

/** The project whose events tell of a medium; null where the medium is gone. */
export function projectOf(tx: Transaction, mediaId: string): string | null {
  return tx.select({ id: media.projectId }).from(media).where(eq(media.id, mediaId)).get()?.id ?? null;
}
