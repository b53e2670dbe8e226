import { sql } from 'drizzle-orm';
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres';
import type { PoolClient } from 'pg';
import { type OwnedEvent, purgesEverything } from '../event-data.ts';
import { KEPT_EVENTS } from '../event-repository.ts';
import { ADVISORY_CLASS, EVENTS_LOCK } from './advisory-locks.ts';
import { CHANNEL, type Change, type Changes } from './changes.ts';
import { isUnavailable } from './errors.ts';
import type { PoolShare } from './pool-share.ts';
import { events, versions } from './schema.ts';

/** Row of the counters that outlives the event of a purge of everything: it holds the event's `seq`. */
export const PURGED_EVERYTHING = 'purged_everything';

/** Counters of what readers see. */
export type VersionName = 'assets' | 'media' | 'projects' | 'regions';

/** What is written together or not at all. */
export interface Transaction {
  /** Its own connection; the pool's is another one, which would see nothing of it. */
  db: NodePgDatabase;
  /** Has an event written with it, at its end. */
  tell(event: OwnedEvent): void;
  /** Has a counter go up with it, at its end. */
  bump(version: VersionName): void;
}

/** Runs what is written in transactions. */
export interface Transactions {
  /** @returns what `work` returned, once that is committed */
  write<T>(work: (tx: Transaction) => Promise<T>): Promise<T>;
  /**
   * As `write`, without waiting for the server's disk: if the server dies within a second, what was written was never written, nor was
   * anything after it. Nobody else is told of it.
   */
  writeSoon<T>(work: (tx: Pick<Transaction, 'db'>) => Promise<T>): Promise<T>;
  /** Writes one event. @returns its `seq` */
  append(event: OwnedEvent): Promise<number>;
}

/** https://www.postgresql.org/docs/15/wal-async-commit.html */
const BEGIN_SOON = 'BEGIN; SET LOCAL synchronous_commit TO off';

/**
 * Makes {@link Transactions}. Events and counters, whose locks everybody wants, are written last of all and always in the same order:
 * so they are held for the shortest time, and no two transactions wait for each other because of them.
 */
export function createTransactions(
  pool: Pick<PoolShare, 'connect'>,
  { changes, now = Date.now, keep = KEPT_EVENTS }: { changes: Changes; now?: () => number; keep?: number },
): Transactions {
  /** @returns the `seq` of each */
  const writeEvents = async (db: NodePgDatabase, told: readonly OwnedEvent[]): Promise<number[]> => {
    // Numbers are given before the commit: without it, one who reads up to 7 could miss a 6 that is committed later.
    await db.execute(sql`SELECT pg_advisory_xact_lock(${ADVISORY_CLASS}, ${EVENTS_LOCK})`);
    const rows = told.map(({ projectId, type, data }) => ({ projectId, type, data, createdAtMs: now() }));
    const written = await db.insert(events).values(rows).returning({ seq: events.seq });
    const numbers = written.map(({ seq }) => seq);
    await db.delete(events).where(sql`${events.seq} <= ${Math.max(...numbers) - keep}`);
    const purge = told.findLastIndex(purgesEverything);
    if (purge >= 0) {
      const latest = { name: PURGED_EVERYTHING, value: numbers[purge] ?? 0 };
      await db.insert(versions).values(latest).onConflictDoUpdate({ target: versions.name, set: latest });
    }
    return numbers;
  };

  const bumpVersions = async (db: NodePgDatabase, names: Iterable<string>): Promise<void> => {
    const rows = [...names].sort().map((name) => ({ name, value: 1 }));
    const set = { value: sql`${versions.value} + 1` };
    await db.insert(versions).values(rows).onConflictDoUpdate({ target: versions.name, set });
  };

  const run = async <T>(
    work: (tx: Transaction) => Promise<T>,
    begin = 'BEGIN',
  ): Promise<{ result: T; numbers: number[] }> => {
    const client = await pool.connect();
    const told: OwnedEvent[] = [];
    const bumped = new Set<VersionName>();
    const db = drizzle(client);
    let broken: Error | undefined;
    try {
      await client.query(begin);
      const result = await work({
        db,
        tell: (event) => void told.push(event),
        bump: (version) => void bumped.add(version),
      });
      // The state itself is measured and in no table: whoever keeps an answer that tells it learns by this.
      if (told.some(({ type }) => type === 'region.status_changed')) bumped.add('regions');
      const change = changeOf(bumped, told);
      const numbers = change.events ? await writeEvents(db, told) : [];
      if (bumped.size > 0) await bumpVersions(db, bumped);
      // Commits with a notice go one after the other in all of PostgreSQL.
      if (change.versions || change.events) {
        await db.execute(sql`SELECT pg_notify(${CHANNEL}, ${changes.payloadOf(change)})`);
      }
      changes.written({ ...change, events: false });
      await client.query('COMMIT');
      return { result, numbers };
    } catch (error) {
      broken = await rolledBack(client, error);
      throw error;
    } finally {
      client.release(broken);
      changes.written(changeOf(bumped, told));
    }
  };

  return {
    write: async (work) => (await run(work)).result,
    writeSoon: async (work) => (await run(({ db }) => work({ db }), BEGIN_SOON)).result,

    async append(event) {
      const { numbers } = await run(async ({ tell }) => tell(event));
      return numbers[0] ?? 0;
    },
  };
}

function changeOf(bumped: ReadonlySet<VersionName>, told: readonly OwnedEvent[]): Change {
  const assets = bumped.has('assets');
  return { versions: bumped.size > (assets ? 1 : 0), assets, events: told.length > 0 };
}

/** Undoes what was begun. @returns why the connection is not to be used again; undefined where it may be */
async function rolledBack(client: PoolClient, reason: unknown): Promise<Error | undefined> {
  // Nobody may be there to answer. What was not committed is gone with the connection.
  if (isUnavailable(reason)) return reason as Error;
  try {
    await client.query('ROLLBACK');
    return undefined;
  } catch (error) {
    return error as Error;
  }
}
