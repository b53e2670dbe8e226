import type { MediaRepository } from '../media-repository.ts';
import type { PostgresDatabase } from './database.ts';
import { createLeaseWrites } from './lease-writes.ts';
import { createMediaQueries } from './media-queries.ts';
import { createMediaWrites } from './media-writes.ts';
import { createRenditionQueries } from './rendition-queries.ts';
import type { Transactions } from './transaction.ts';

/** {@link MediaRepository} over PostgreSQL. @param parts.now the wall clock, milliseconds since the epoch */
export function createMediaRepository(
  db: PostgresDatabase,
  { transactions, now = Date.now }: { transactions: Transactions; now?: () => number },
): MediaRepository {
  return {
    ...createMediaQueries(db),
    ...createRenditionQueries(db),
    ...createMediaWrites({ transactions, now }),
    ...createLeaseWrites({ transactions, now }),
  };
}
