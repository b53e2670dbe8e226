import { and, asc, eq, gt, isNull, max, min, or } from 'drizzle-orm';
import type { EventRepository } from '../event-repository.ts';
import type { Changes } from './changes.ts';
import { type PostgresDatabase, versionReader } from './database.ts';
import { events } from './schema.ts';
import { PURGED_EVERYTHING, type Transactions } from './transaction.ts';

/** {@link EventRepository} over PostgreSQL. */
export function createEventRepository(
  db: PostgresDatabase,
  { transactions, changes }: { transactions: Pick<Transactions, 'append'>; changes: Changes },
): EventRepository {
  const readVersion = versionReader(db);
  return {
    append: (event) => transactions.append(event),

    async after(seq, { projectId, limit }) {
      const whose = projectId === null ? undefined : or(isNull(events.projectId), eq(events.projectId, projectId));
      return db
        .select()
        .from(events)
        .where(and(gt(events.seq, seq), whose))
        .orderBy(asc(events.seq))
        .limit(limit);
    },

    async latest() {
      const [row] = await db.select({ seq: max(events.seq) }).from(events);
      return row?.seq ?? 0;
    },

    async horizon() {
      const [row] = await db.select({ seq: min(events.seq) }).from(events);
      const oldest = row?.seq ?? null;
      const purged = await readVersion(PURGED_EVERYTHING);
      return { completeAfter: oldest === null ? 0 : oldest - 1, purgedEverything: purged === 0 ? null : purged };
    },

    onAppended: changes.onAppended,
  };
}
