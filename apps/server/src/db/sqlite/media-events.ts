import { eq } from 'drizzle-orm';
import { mediumEvent } from '../event-data.ts';
import type { EventWriter } from './event-repository.ts';
import { media } from './schema.ts';
import type { Transaction } from './transaction.ts';

/** Writes what became of a medium into the events, in the transaction in which it did. */
export function tellOfMedium(
  tx: Transaction,
  events: EventWriter,
  medium: Parameters<typeof mediumEvent>[1],
  type: Parameters<typeof mediumEvent>[0],
): void {
  events.append(tx, mediumEvent(type, medium));
}

/** The project whose events tell of a medium; null where the medium is gone. */
export function projectOf(tx: Transaction, mediaId: string): string | null {
  return tx.select({ id: media.projectId }).from(media).where(eq(media.id, mediaId)).get()?.id ?? null;
}
