import { lte, sql } from 'drizzle-orm';
import type { Change } from './changes.ts';
import type { Executor, Transaction, VersionName } from './dialect.ts';
import { type OwnedEvent, purgesEverything } from './event-data.ts';
import { KEPT_EVENTS, PURGED_EVERYTHING } from './event-repository.ts';
import type { Tables } from './tables.ts';

/** How events are kept. */
export interface EventOptions {
  /** The wall clock, milliseconds since the epoch. */
  now?: (() => number) | undefined;
  /** How many events are kept. */
  keep?: number | undefined;
}

/** Events and counters of one transaction, collected until its end. */
export interface Outbox extends Pick<Transaction, 'append' | 'bump'> {
  /** The changes of the transaction. Complete after its work is done. */
  change(): Change;
  /**
   * Writes events and counters, as the last statements of the transaction. Everybody wants their locks, so they are held for the
   * shortest time, and always taken in the same order.
   * @param orderEvents runs before events get their numbers
   * @returns the `seq` of each event
   */
  write(db: Executor, orderEvents?: () => Promise<unknown>): Promise<number[]>;
}

export function createOutbox(
  { events, versions }: Tables,
  { now = Date.now, keep = KEPT_EVENTS }: EventOptions = {},
): Outbox {
  const appended: OwnedEvent[] = [];
  const bumped = new Set<VersionName>();

  const writeEvents = async (db: Executor): Promise<number[]> => {
    const rows = appended.map(({ projectId, type, data }) => ({ projectId, type, data, createdAtMs: now() }));
    const written = await db.insert(events).values(rows).returning({ seq: events.seq });
    const numbers = written.map(({ seq }) => seq);
    await db.delete(events).where(lte(events.seq, Math.max(...numbers) - keep));
    const purge = appended.findLastIndex(purgesEverything);
    if (purge >= 0) {
      const latest = { name: PURGED_EVERYTHING, value: numbers[purge] ?? 0 };
      await db.insert(versions).values(latest).onConflictDoUpdate({ target: versions.name, set: latest });
    }
    return numbers;
  };

  return {
    append(event) {
      appended.push(event);
      // The state of a region is measured and in no table. Answers that show it learn of a change by this.
      if (event.type === 'region.status_changed') bumped.add('regions');
    },

    bump: (version) => void bumped.add(version),

    change() {
      const assets = bumped.has('assets');
      return { versions: bumped.size > (assets ? 1 : 0), assets, events: appended.length > 0 };
    },

    async write(db, orderEvents) {
      const numbers: number[] = [];
      if (appended.length > 0) {
        await orderEvents?.();
        numbers.push(...(await writeEvents(db)));
      }
      if (bumped.size > 0) {
        const rows = [...bumped].sort().map((name) => ({ name, value: 1 }));
        const set = { value: sql`${versions.value} + 1` };
        await db.insert(versions).values(rows).onConflictDoUpdate({ target: versions.name, set });
      }
      return numbers;
    },
  };
}
