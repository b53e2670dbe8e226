import { randomUUID } from 'node:crypto';
import { and, asc, count, desc, eq, gt, inArray, isNotNull, lt, lte, or, sql } from 'drizzle-orm';
import { shownUrl } from '../../base/shown-url.ts';
import { type FetchLease, type FetchRepository, KEPT_FETCHES } from '../fetch-repository.ts';
import {
  endedFetch,
  type FetchRow,
  fetchRecordOf,
  LONGEST_FETCH_DELAY_MS,
  NO_FETCH_LEASE,
  OVER,
  UNDER_WAY,
} from '../fetch-rules.ts';
import type { SqliteDatabase } from './database.ts';
import { keepLatest } from './keep-latest.ts';
import { fetches } from './schema.ts';
import { type Transaction, WRITE } from './transaction.ts';

export interface FetchRepositoryOptions {
  /** The wall clock, milliseconds since the epoch. */
  now?: () => number;
  /** Fetches that are over and kept, a project. */
  keep?: number;
}

/** {@link FetchRepository} over SQLite. */
export function createFetchRepository(
  db: SqliteDatabase,
  { now = Date.now, keep = KEPT_FETCHES }: FetchRepositoryOptions = {},
): FetchRepository {
  const find = (tx: Transaction | SqliteDatabase, id: string) =>
    tx.select().from(fetches).where(eq(fetches.id, id)).get();

  const findByKey = (tx: Transaction | SqliteDatabase, projectId: string, key: string) =>
    tx
      .select()
      .from(fetches)
      .where(and(eq(fetches.projectId, projectId), eq(fetches.idempotencyKey, key)))
      .get();

  /** Writes to a fetch whose lease stands; false where it does not. */
  const underLease = (tx: Transaction | SqliteDatabase, lease: FetchLease, values: Partial<FetchRow>): boolean =>
    tx
      .update(fetches)
      .set({ updatedAtMs: now(), ...values })
      .where(and(eq(fetches.id, lease.fetch.id), eq(fetches.leaseToken, lease.token)))
      .run().changes === 1;

  const forgetSecrets = (tx: Transaction, { id, projectId, sourceUrl }: FetchLease['fetch']): void => {
    tx.update(fetches)
      .set({ sourceUrl: shownUrl(sourceUrl), validator: null })
      .where(eq(fetches.id, id))
      .run();
    const over = and(eq(fetches.projectId, projectId), inArray(fetches.status, OVER));
    if (over) keepLatest(tx, { table: fetches, group: over, column: fetches.id, keep });
  };

  return {
    add: async (fetch, { maxWaiting }) =>
      db.transaction((tx) => {
        const { projectId, idempotencyKey, requestSha256, createdAtMs } = fetch;
        const known = idempotencyKey === null ? undefined : findByKey(tx, projectId, idempotencyKey);
        if (known?.requestSha256 === requestSha256) return { outcome: 'repeated', fetch: fetchRecordOf(known) };
        if (known) return { outcome: 'other', fetchId: known.id };
        const waiting = tx
          .select({ fetches: count() })
          .from(fetches)
          .where(and(eq(fetches.projectId, projectId), inArray(fetches.status, UNDER_WAY)))
          .get();
        if ((waiting?.fetches ?? 0) >= maxWaiting) return { outcome: 'full' };
        const row = tx
          .insert(fetches)
          .values({ ...fetch, updatedAtMs: createdAtMs, dueAtMs: createdAtMs, status: 'queued' })
          .returning()
          .get();
        return { outcome: 'created', fetch: fetchRecordOf(row) };
      }, WRITE),

    async find(id) {
      const row = find(db, id);
      return row ? fetchRecordOf(row) : null;
    },

    async findByIdempotencyKey(projectId, key) {
      const row = findByKey(db, projectId, key);
      return row ? fetchRecordOf(row) : null;
    },

    async page({ projectId, limit, before, status }) {
      return db
        .select()
        .from(fetches)
        .where(
          and(
            eq(fetches.projectId, projectId),
            status === undefined ? undefined : eq(fetches.status, status),
            before === null ? undefined : lt(fetches.id, before),
          ),
        )
        .orderBy(desc(fetches.id))
        .limit(limit)
        .all()
        .map(fetchRecordOf);
    },

    async unfinished() {
      const rows = db.select({ id: fetches.id }).from(fetches).where(inArray(fetches.status, UNDER_WAY)).all();
      return rows.map(({ id }) => id);
    },

    async claim() {
      const at = now();
      const isDue = or(lte(fetches.dueAtMs, at), gt(fetches.dueAtMs, at + LONGEST_FETCH_DELAY_MS));
      const oldest = db
        .select({ id: fetches.id })
        .from(fetches)
        .where(and(eq(fetches.status, 'queued'), isDue))
        .orderBy(asc(fetches.dueAtMs), asc(fetches.id))
        .limit(1);
      // A look takes no lock, and most of the time there is nothing.
      if (oldest.get() === undefined) return null;
      const token = randomUUID();
      const row = db
        .update(fetches)
        .set({
          ...{ status: 'fetching', leaseToken: token, leaseBeat: 0, leaseSilentMs: 0, updatedAtMs: at },
          attempts: sql`${fetches.attempts} + 1`,
          fruitlessAttempts: sql`${fetches.fruitlessAttempts} + 1`,
        })
        .where(inArray(fetches.id, oldest))
        .returning()
        .get() as FetchRow | undefined;
      return row ? { fetch: fetchRecordOf(row), token } : null;
    },

    async beat(lease, { receivedBytes, totalBytes, validator, spentMs, fruitful }) {
      return (
        db
          .update(fetches)
          .set({
            ...{ receivedBytes, totalBytes, validator, updatedAtMs: now() },
            leaseBeat: sql`${fetches.leaseBeat} + 1`,
            leaseSilentMs: 0,
            spentMs: sql`${fetches.spentMs} + ${Math.round(spentMs)}`,
            ...(fruitful ? { fruitlessAttempts: 0 } : {}),
          })
          .where(and(eq(fetches.id, lease.fetch.id), eq(fetches.leaseToken, lease.token)))
          .run().changes === 1
      );
    },

    beginAccepting: async (lease) => underLease(db, lease, { accepting: true }),

    giveBack: async (lease, as) =>
      db.transaction((tx) => {
        const row = find(tx, lease.fetch.id);
        if (row?.leaseToken !== lease.token) return false;
        const uncounted = Math.max(0, row.fruitlessAttempts - 1);
        if (as.kind === 'retry') {
          const { failure, delayMs, fruitless = true } = as;
          return underLease(tx, lease, {
            ...{ ...NO_FETCH_LEASE, status: 'queued', failure, dueAtMs: now() + Math.ceil(delayMs) },
            ...(fruitless ? {} : { fruitlessAttempts: uncounted }),
          });
        }
        return underLease(tx, lease, {
          ...{ ...NO_FETCH_LEASE, status: 'queued', dueAtMs: now(), attempts: row.attempts - 1 },
          fruitlessAttempts: uncounted,
        });
      }, WRITE),

    end: async (lease, end) =>
      db.transaction((tx) => {
        if (!underLease(tx, lease, { ...endedFetch(end), ...NO_FETCH_LEASE })) return false;
        forgetSecrets(tx, lease.fetch);
        return true;
      }, WRITE),

    cancel: async (id) =>
      db.transaction((tx) => {
        const row = tx
          .update(fetches)
          .set({ ...NO_FETCH_LEASE, status: 'canceled', failure: null, updatedAtMs: now() })
          .where(and(eq(fetches.id, id), inArray(fetches.status, UNDER_WAY), eq(fetches.accepting, false)))
          .returning()
          .get() as FetchRow | undefined;
        if (row === undefined) return false;
        forgetSecrets(tx, fetchRecordOf(row));
        return true;
      }, WRITE),

    async held() {
      const rows = db
        .select({ token: fetches.leaseToken, beat: fetches.leaseBeat, silentMs: fetches.leaseSilentMs })
        .from(fetches)
        .where(isNotNull(fetches.leaseToken))
        .all();
      return rows.flatMap(({ token, beat, silentMs }) => (token === null ? [] : [{ token, beat, silentMs }]));
    },

    async noteSilence({ token, beat, silentMs: before }, silentMs) {
      const asSeen = and(eq(fetches.leaseToken, token), eq(fetches.leaseBeat, beat), eq(fetches.leaseSilentMs, before));
      return db.update(fetches).set({ leaseSilentMs: silentMs }).where(asSeen).run().changes === 1;
    },

    async reclaim(token) {
      const values = { ...NO_FETCH_LEASE, status: 'queued', dueAtMs: now(), updatedAtMs: now() } as const;
      return db.update(fetches).set(values).where(eq(fetches.leaseToken, token)).run().changes === 1;
    },
  };
}
