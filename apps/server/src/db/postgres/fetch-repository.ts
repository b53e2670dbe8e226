import { randomUUID } from 'node:crypto';
import { and, asc, desc, eq, gt, inArray, isNotNull, lt, lte, or, sql } from 'drizzle-orm';
import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
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
import { lockNames } from './advisory-locks.ts';
import type { PostgresDatabase } from './database.ts';
import { keepLatest } from './keep-latest.ts';
import { fetches } from './schema.ts';
import type { Transactions } from './transaction.ts';

export interface FetchRepositoryParts {
  transactions: Transactions;
  /** The wall clock, milliseconds since the epoch. */
  now?: () => number;
  /** Fetches that are over and kept, a project. */
  keep?: number;
}

/** {@link FetchRepository} over PostgreSQL. */
export function createFetchRepository(
  db: PostgresDatabase,
  { transactions, now = Date.now, keep = KEPT_FETCHES }: FetchRepositoryParts,
): FetchRepository {
  const findByKey = async (on: NodePgDatabase, projectId: string, key: string): Promise<FetchRow | undefined> => {
    const ofKey = and(eq(fetches.projectId, projectId), eq(fetches.idempotencyKey, key));
    return (await on.select().from(fetches).where(ofKey))[0];
  };

  const held = (lease: FetchLease) => and(eq(fetches.id, lease.fetch.id), eq(fetches.leaseToken, lease.token));

  /** Writes to a fetch whose lease stands; false where it does not. */
  const underLease = async (on: NodePgDatabase, lease: FetchLease, values: Partial<FetchRow>): Promise<boolean> => {
    const { rowCount } = await on
      .update(fetches)
      .set({ updatedAtMs: now(), ...values })
      .where(held(lease));
    return rowCount === 1;
  };

  const forgetSecrets = async (on: NodePgDatabase, fetch: FetchLease['fetch']): Promise<void> => {
    const shown = { sourceUrl: shownUrl(fetch.sourceUrl), validator: null };
    await on.update(fetches).set(shown).where(eq(fetches.id, fetch.id));
    const over = and(eq(fetches.projectId, fetch.projectId), inArray(fetches.status, OVER));
    if (over) await keepLatest(on, { table: fetches, group: over, column: fetches.id, keep });
  };

  return {
    add: (fetch, { maxWaiting }) =>
      transactions.write(async (tx) => {
        const { projectId, idempotencyKey, requestSha256, createdAtMs } = fetch;
        // Those who count at the same time would all find room for one more; and a key is looked for before it is there.
        await lockNames(tx.db, [`fetches of ${projectId}`]);
        const known = idempotencyKey === null ? undefined : await findByKey(tx.db, projectId, idempotencyKey);
        if (known?.requestSha256 === requestSha256) return { outcome: 'repeated', fetch: fetchRecordOf(known) };
        if (known) return { outcome: 'other', fetchId: known.id };
        const ofProject = and(eq(fetches.projectId, projectId), inArray(fetches.status, UNDER_WAY));
        if ((await tx.db.$count(fetches, ofProject)) >= maxWaiting) return { outcome: 'full' };
        const [row] = await tx.db
          .insert(fetches)
          .values({ ...fetch, updatedAtMs: createdAtMs, dueAtMs: createdAtMs, status: 'queued' })
          .returning();
        return { outcome: 'created', fetch: fetchRecordOf(row as FetchRow) };
      }),

    async find(id) {
      const [row] = await db.select().from(fetches).where(eq(fetches.id, id));
      return row ? fetchRecordOf(row) : null;
    },

    async findByIdempotencyKey(projectId, key) {
      const row = await findByKey(db, projectId, key);
      return row ? fetchRecordOf(row) : null;
    },

    async page({ projectId, limit, before, status }) {
      const rows = await db
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
        .limit(limit);
      return rows.map(fetchRecordOf);
    },

    async unfinished() {
      const rows = await db.select({ id: fetches.id }).from(fetches).where(inArray(fetches.status, UNDER_WAY));
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
        .limit(1)
        .for('update', { skipLocked: true });
      const token = randomUUID();
      const [row] = await db
        .update(fetches)
        .set({
          ...{ status: 'fetching', leaseToken: token, leaseBeat: 0, leaseSilentMs: 0, updatedAtMs: at },
          attempts: sql`${fetches.attempts} + 1`,
          fruitlessAttempts: sql`${fetches.fruitlessAttempts} + 1`,
        })
        // Materialized: as a part of the UPDATE it might be run more than once, and lock a row each time.
        .where(sql`${fetches.id} = ANY(ARRAY(${oldest}))`)
        .returning();
      return row ? { fetch: fetchRecordOf(row), token } : null;
    },

    async beat(lease, { receivedBytes, totalBytes, validator, spentMs, fruitful }) {
      const { rowCount } = await db
        .update(fetches)
        .set({
          ...{ receivedBytes, totalBytes, validator, updatedAtMs: now() },
          leaseBeat: sql`${fetches.leaseBeat} + 1`,
          leaseSilentMs: 0,
          spentMs: sql`${fetches.spentMs} + ${Math.round(spentMs)}`,
          ...(fruitful ? { fruitlessAttempts: 0 } : {}),
        })
        .where(held(lease));
      return rowCount === 1;
    },

    beginAccepting: (lease) => underLease(db, lease, { accepting: true }),

    giveBack: (lease, as) =>
      transactions.write(async (tx) => {
        const [row] = await tx.db.select().from(fetches).where(held(lease)).for('update');
        if (row === undefined) return false;
        const uncounted = Math.max(0, row.fruitlessAttempts - 1);
        if (as.kind === 'retry') {
          const { failure, delayMs, fruitless = true } = as;
          return underLease(tx.db, lease, {
            ...{ ...NO_FETCH_LEASE, status: 'queued', failure, dueAtMs: now() + Math.ceil(delayMs) },
            ...(fruitless ? {} : { fruitlessAttempts: uncounted }),
          });
        }
        return underLease(tx.db, lease, {
          ...{ ...NO_FETCH_LEASE, status: 'queued', dueAtMs: now(), attempts: row.attempts - 1 },
          fruitlessAttempts: uncounted,
        });
      }),

    end: (lease, end) =>
      transactions.write(async (tx) => {
        if (!(await underLease(tx.db, lease, { ...endedFetch(end), ...NO_FETCH_LEASE }))) return false;
        await forgetSecrets(tx.db, lease.fetch);
        return true;
      }),

    cancel: (id) =>
      transactions.write(async (tx) => {
        const [row] = await tx.db
          .update(fetches)
          .set({ ...NO_FETCH_LEASE, status: 'canceled', failure: null, updatedAtMs: now() })
          .where(and(eq(fetches.id, id), inArray(fetches.status, UNDER_WAY), eq(fetches.accepting, false)))
          .returning();
        if (row === undefined) return false;
        await forgetSecrets(tx.db, fetchRecordOf(row));
        return true;
      }),

    async held() {
      const rows = await db
        .select({ token: fetches.leaseToken, beat: fetches.leaseBeat, silentMs: fetches.leaseSilentMs })
        .from(fetches)
        .where(isNotNull(fetches.leaseToken));
      return rows.flatMap(({ token, beat, silentMs }) => (token === null ? [] : [{ token, beat, silentMs }]));
    },

    async noteSilence({ token, beat, silentMs: before }, silentMs) {
      const asSeen = and(eq(fetches.leaseToken, token), eq(fetches.leaseBeat, beat), eq(fetches.leaseSilentMs, before));
      return (await db.update(fetches).set({ leaseSilentMs: silentMs }).where(asSeen)).rowCount === 1;
    },

    async reclaim(token) {
      const values = { ...NO_FETCH_LEASE, status: 'queued', dueAtMs: now(), updatedAtMs: now() } as const;
      return (await db.update(fetches).set(values).where(eq(fetches.leaseToken, token))).rowCount === 1;
    },
  };
}
