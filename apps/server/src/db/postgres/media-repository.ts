import type { MediaRepository } from '../media-repository.ts';
import type { PostgresDatabase, QuerySource } from './database.ts';
import { createLeaseWrites } from './lease-writes.ts';
import { createMediaQueries } from './media-queries.ts';
import { createMediaWrites } from './media-writes.ts';
import { createRenditionQueries } from './rendition-queries.ts';
import type { Transactions } from './transaction.ts';

/**
 * {@link MediaRepository} over PostgreSQL.
 * @param parts.listening see `ChangeListener.queries`
 * @param parts.now the wall clock, milliseconds since the epoch
 */
export function createMediaRepository(
  db: PostgresDatabase,
  parts: { transactions: Transactions; listening: QuerySource; now?: () => number },
): MediaRepository {
  const { transactions, listening, now = Date.now } = parts;
  return {
    ...createMediaQueries(db, listening),
    ...createRenditionQueries(db),
    ...createMediaWrites({ transactions, now }),
    ...createLeaseWrites({ transactions, now }),
  };
}
