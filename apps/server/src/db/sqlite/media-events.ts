import { eq } from 'drizzle-orm';
import { mediaEvent } from '../event-data.ts';
import type { EventWriter } from './event-repository.ts';
import { media } from './schema.ts';
import type { Transaction } from './transaction.ts';

/** Writes what became of a media object into the events, in the transaction in which it did. */
export function writeMediaEvent(
  tx: Transaction,
  events: EventWriter,
  mediaObject: Parameters<typeof mediaEvent>[1],
  type: Parameters<typeof mediaEvent>[0],
): void {
  events.append(tx, mediaEvent(type, mediaObject));
}

/** The project whose events tell of a media object; null where the media object is gone. */
export function projectOf(tx: Transaction, mediaId: string): string | null {
  return tx.select({ id: media.projectId }).from(media).where(eq(media.id, mediaId)).get()?.id ?? null;
}
