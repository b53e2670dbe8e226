import { and, asc, eq, gt, isNull, lte, or, sql } from 'drizzle-orm';
import { createAppendListeners } from '../append-listeners.ts';
import { type OwnedEvent, purgesEverything } from '../event-data.ts';
import { type EventRecord, type EventRepository, KEPT_EVENTS } from '../event-repository.ts';
import { bumpVersion, type SqliteDatabase, versionReader } from './database.ts';
import { events, versions } from './schema.ts';

type Writer = Pick<SqliteDatabase, 'insert' | 'delete'>;

/** Row of the counters that outlives the event of a purge of everything: it holds the event's `seq`. */
const PURGED_EVERYTHING = 'purged_everything';

/** Writes events inside the transactions of those whom they are about, and wakes this process's listeners. */
export interface EventWriter {
  /** @returns its `seq` */
  append(tx: Writer, event: OwnedEvent): number;
  onAppended(listener: () => void): () => void;
}

/** @param now the wall clock, milliseconds since the epoch */
export function createEventWriter(now: () => number = Date.now, keep = KEPT_EVENTS): EventWriter {
  const listeners = createAppendListeners();
  return {
    append(tx, event) {
      const { projectId, type, data } = event;
      const { seq } = tx
        .insert(events)
        .values({ projectId, type, data, createdAtMs: now() })
        .returning({ seq: events.seq })
        .get();
      tx.delete(events)
        .where(lte(events.seq, seq - keep))
        .run();
      if (purgesEverything(event)) {
        const latest = { name: PURGED_EVERYTHING, value: seq };
        tx.insert(versions).values(latest).onConflictDoUpdate({ target: versions.name, set: latest }).run();
      }
      // The state itself is measured and in no table: whoever keeps an answer that tells it learns by this.
      if (type === 'region.status_changed') bumpVersion(tx, 'regions');
      // Transactions are synchronous, so that they are called after the commit.
      listeners.wake();
      return seq;
    },

    onAppended: listeners.add,
  };
}

/** {@link EventRepository} over SQLite. */
export function createEventRepository(db: SqliteDatabase, writer: EventWriter): EventRepository {
  const readPurgedEverything = versionReader(db, PURGED_EVERYTHING);
  return {
    async append(event) {
      return db.transaction((tx) => writer.append(tx, event), { behavior: 'immediate' });
    },

    async after(seq, { projectId, limit }): Promise<EventRecord[]> {
      const whose = projectId === null ? undefined : or(isNull(events.projectId), eq(events.projectId, projectId));
      return db
        .select()
        .from(events)
        .where(and(gt(events.seq, seq), whose))
        .orderBy(asc(events.seq))
        .limit(limit)
        .all();
    },

    async latest() {
      return (
        db
          .select({ seq: sql<number | null>`max(${events.seq})` })
          .from(events)
          .get()?.seq ?? 0
      );
    },

    async horizon() {
      const oldest =
        db
          .select({ seq: sql<number | null>`min(${events.seq})` })
          .from(events)
          .get()?.seq ?? null;
      const purged = readPurgedEverything();
      return { completeAfter: oldest === null ? 0 : oldest - 1, purgedEverything: purged === 0 ? null : purged };
    },

    onAppended: (listener) => writer.onAppended(listener),
  };
}
