import type { MediaRepository } from '../media-repository.ts';
import type { SqliteDatabase } from './database.ts';
import type { EventWriter } from './event-repository.ts';
import type { GroupCommit } from './group-commit.ts';
import { createLeaseWrites } from './lease-writes.ts';
import { createMediaQueries } from './media-queries.ts';
import { createMediaWrites } from './media-writes.ts';
import { createRenditionQueries } from './rendition-queries.ts';

/** {@link MediaRepository} over SQLite. @param parts.now the wall clock, milliseconds since the epoch */
export function createMediaRepository(
  db: SqliteDatabase,
  { events, commits, now = Date.now }: { events: EventWriter; commits: GroupCommit; now?: () => number },
): MediaRepository {
  return {
    ...createMediaQueries(db),
    ...createRenditionQueries(db),
    ...createMediaWrites(db, { events, commits, now }),
    ...createLeaseWrites(db, { events, now }),
  };
}
