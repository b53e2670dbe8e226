import { and, asc, eq, gt, isNull, max, min, or } from 'drizzle-orm';
import type { Dialect } from './dialect.ts';
import type { KeptEventType, NewEvent } from './event-data.ts';
import { createVersionReader } from './versions.ts';

/** A stored event. `seq` only grows, whichever process writes. */
export interface EventRecord {
  seq: number;
  /** Null: concerns every project. */
  projectId: string | null;
  type: KeptEventType;
  data: Record<string, unknown>;
  createdAtMs: number;
}

/** How many events are kept. Older ones are deleted. */
export const KEPT_EVENTS = 10_000;

/** Row of the counters that outlives the event of a purge of everything: it holds the event's `seq`. */
export const PURGED_EVERYTHING = 'purged_everything';

/** Events, in one order for all processes. Those about media are written in the transaction of the change. */
export interface EventRepository {
  /** Writes an event that no other repository writes. @returns its `seq` */
  append(event: NewEvent & { projectId: string | null }): Promise<number>;
  /** At most `limit` events after `seq`, oldest first: those of a project and those that concern every project; null: all. */
  after(seq: number, options: { projectId: string | null; limit: number }): Promise<EventRecord[]>;
  /** The latest event's `seq`; 0 if there is none. */
  latest(): Promise<number>;
  /** The `seq` after which every event is kept, and that of the latest purge of everything, however old; null: there was none. */
  horizon(): Promise<{ completeAfter: number; purgedEverything: number | null }>;
  /**
   * Calls back soon after this process has written events, perhaps once for several. Only PostgreSQL reports those of other processes, so
   * a listener that must not miss any also asks from time to time.
   * @returns stops it
   */
  onAppended(listener: () => void): () => void;
}

/** Creates the {@link EventRepository}. */
export function createEventRepository(dialect: Dialect): EventRepository {
  const { tables, read, append, onAppended } = dialect;
  const { events } = tables;
  const readVersion = createVersionReader(dialect);
  return {
    append,

    async after(seq, { projectId, limit }) {
      const whose = projectId === null ? undefined : or(isNull(events.projectId), eq(events.projectId, projectId));
      const later = and(gt(events.seq, seq), whose);
      return read.select().from(events).where(later).orderBy(asc(events.seq)).limit(limit);
    },

    async latest() {
      const [row] = await read.select({ seq: max(events.seq) }).from(events);
      return row?.seq ?? 0;
    },

    async horizon() {
      const [row] = await read.select({ seq: min(events.seq) }).from(events);
      const oldest = row?.seq ?? null;
      const purged = await readVersion(PURGED_EVERYTHING);
      return { completeAfter: oldest === null ? 0 : oldest - 1, purgedEverything: purged === 0 ? null : purged };
    },

    onAppended,
  };
}
