import type { MediaRepository } from '../media-repository.ts';
import type { SqliteDatabase } from './database.ts';
import type { EventWriter } from './event-repository.ts';
import { createLeaseWrites } from './lease-writes.ts';
import { createMediaQueries } from './media-queries.ts';
import { createMediaWrites } from './media-writes.ts';
import { createRenditionQueries } from './rendition-queries.ts';

/** {@link MediaRepository} over SQLite. @param parts.now the wall clock, milliseconds since the epoch */
export function createMediaRepository(
  db: SqliteDatabase,
  { events, now = Date.now }: { events: EventWriter; now?: () => number },
): MediaRepository {
  return {
    ...createMediaQueries(db),
    ...createRenditionQueries(db),
    ...createMediaWrites(db, { events, now }),
    ...createLeaseWrites(db, { events, now }),
  };
}
