import { randomUUID } from 'node:crypto';
import type { FetchStatus, MediaFailure } from '@mds/contract';
import { and, asc, desc, eq, gt, inArray, isNotNull, lt, lte, or, sql } from 'drizzle-orm';
import { shownUrl } from '../base/shown-url.ts';
import type { NoteSilence, WatchedLease } from '../heartbeats/lease-watch.ts';
import { changedRows, type Dialect, type Executor } from './dialect.ts';
import { keepLatest } from './keep-latest.ts';

/** A file that is fetched from a URL. Instants are milliseconds since the epoch. */
export interface FetchRecord {
  id: string;
  projectId: string;
  createdAtMs: number;
  updatedAtMs: number;
  /** Complete while it is needed. Once the fetch is over it has no query, which may hold a secret. */
  sourceUrl: string;
  filename: string | null;
  duplicate: 'existing' | 'allow';
  idempotencyKey: string | null;
  status: FetchStatus;
  /** Bytes that are synced to disk. */
  receivedBytes: number;
  /** As the source declares; null if it does not. */
  totalBytes: number | null;
  /** Strong validator of the received bytes, for `If-Range`; null if the source sent none. */
  validator: string | null;
  attempts: number;
  /** Attempts since the last one that made progress, including this one. */
  fruitlessAttempts: number;
  /** Time that all attempts took, in milliseconds. */
  spentMs: number;
  mediaId: string | null;
  /** Whether the media object is new; null until there is one. */
  mediaCreated: boolean | null;
  failure: MediaFailure | null;
}

/** A fetch that a client asks for. */
export type NewFetch = Pick<
  FetchRecord,
  'id' | 'projectId' | 'createdAtMs' | 'sourceUrl' | 'filename' | 'duplicate' | 'idempotencyKey'
> & {
  /** Hash of the request. A repeated request has the same. */
  requestSha256: string;
};

/** The right to work on a fetch, until its holder's heartbeats stop. The token is a fence: a lease that was taken away writes nothing. */
export interface FetchLease {
  fetch: FetchRecord;
  /** Unique to this claim. */
  token: string;
}

/** The progress of an attempt. */
export interface FetchProgress {
  receivedBytes: number;
  totalBytes: number | null;
  validator: string | null;
  /** Time since the last heartbeat, in milliseconds of a monotonic clock. */
  spentMs: number;
  /** The fetch has more bytes than before the attempt, and can be resumed from there. */
  fruitful: boolean;
}

/** How a fetch ends. */
export type FetchEnd =
  | { status: 'done'; mediaId: string; mediaCreated: boolean; receivedBytes: number }
  | { status: 'failed'; failure: MediaFailure };

/** The result of asking for a fetch. `other`: its Idempotency-Key was used for another request. */
export type FetchAdmission =
  | { outcome: 'created' | 'repeated'; fetch: FetchRecord }
  | { outcome: 'full' }
  | { outcome: 'other'; fetchId: string };

/** How many fetches that are over are kept for each project. */
export const KEPT_FETCHES = 10_000;

/** The queue of fetches, and the results of those that are over. */
export interface FetchRepository {
  /** Adds a fetch, unless `maxWaiting` of its project are not over, or its Idempotency-Key is known. */
  add(fetch: NewFetch, options: { maxWaiting: number }): Promise<FetchAdmission>;
  find(id: string): Promise<FetchRecord | null>;
  findByIdempotencyKey(projectId: string, key: string): Promise<FetchRecord | null>;
  /** Newest first. @param before the id that the page starts after */
  page(query: {
    projectId: string;
    limit: number;
    before: string | null;
    status?: FetchRecord['status'];
  }): Promise<FetchRecord[]>;
  /** Ids of those that are not over. */
  unfinished(): Promise<string[]>;
  /** Makes the fetch that has been due for longest `fetching`; null if none is due. */
  claim(): Promise<FetchLease | null>;
  /** Sends the holder's heartbeat and progress. False: the lease was taken away; stop. */
  beat(lease: FetchLease, progress: FetchProgress): Promise<boolean>;
  /** Makes the fetch impossible to cancel while the lease is held. False: the lease was taken away; stop. */
  beginAccepting(lease: FetchLease): Promise<boolean>;
  /**
   * Gives a fetch back: at once and uncounted (`released`, on shutdown), or after `delayMs` with its failure. `fruitless: false`: the
   * attempt does not count as one without progress.
   * @returns false if the lease was taken away
   */
  giveBack(
    lease: FetchLease,
    as: { kind: 'released' } | { kind: 'retry'; delayMs: number; failure: MediaFailure; fruitless?: boolean },
  ): Promise<boolean>;
  /** Ends a fetch, removes secrets from its URL, and deletes the oldest beyond {@link KEPT_FETCHES}. False: the lease was taken away. */
  end(lease: FetchLease, end: FetchEnd): Promise<boolean>;
  /** `queued | fetching -> canceled`. False: it is over, or being accepted. */
  cancel(id: string): Promise<boolean>;
  /** All current leases. */
  held(): Promise<WatchedLease[]>;
  noteSilence: NoteSilence;
  /** Takes a lease away because its holder is gone: the fetch is due again. */
  reclaim(token: string): Promise<boolean>;
}

/** States of fetches that are not over, and of those that are. */
const UNDER_WAY = ['queued', 'fetching'] as const;
const OVER = ['done', 'failed', 'canceled'] as const;

/** The columns of a fetch without a lease. */
const NO_LEASE = { leaseToken: null, accepting: false } as const;

/** No fetch waits longer. One that is due later was given back before the wall clock was set back. */
const LONGEST_DELAY_MS = 3_600_000;

/** The stored columns of a fetch: its record, and the fields of the queue. */
interface FetchRow extends FetchRecord {
  requestSha256: string;
  dueAtMs: number;
  accepting: boolean;
  leaseToken: string | null;
  leaseBeat: number;
  leaseSilentMs: number;
}

function recordOf(row: FetchRow): FetchRecord {
  const { requestSha256, dueAtMs, accepting, leaseToken, leaseBeat, leaseSilentMs, ...record } = row;
  return record;
}

/** Creates the {@link FetchRepository}. @param options.now the wall clock, milliseconds since the epoch */
export function createFetchRepository(
  dialect: Dialect,
  { now = Date.now, keep = KEPT_FETCHES }: { now?: () => number; keep?: number } = {},
): FetchRepository {
  const { read, write } = dialect;
  const { fetches } = dialect.tables;

  const find = async (db: Executor, projectId: string, key: string): Promise<FetchRow | undefined> => {
    const ofKey = and(eq(fetches.projectId, projectId), eq(fetches.idempotencyKey, key));
    return (await db.select().from(fetches).where(ofKey))[0];
  };

  /** Removes secrets from a fetch that is over, and forgets the oldest of its project. */
  const tidy = async (db: Executor, { id, projectId, sourceUrl }: FetchRecord): Promise<void> => {
    const shown = { sourceUrl: shownUrl(sourceUrl), validator: null };
    await db.update(fetches).set(shown).where(eq(fetches.id, id));
    const group = and(eq(fetches.projectId, projectId), inArray(fetches.status, OVER));
    await keepLatest(db, { table: fetches, group, column: fetches.id, keep });
  };

  return {
    add: (fetch, { maxWaiting }) =>
      write(async ({ db, lock }) => {
        const { projectId, idempotencyKey, requestSha256, createdAtMs } = fetch;
        // Without the lock, concurrent calls would all find room for one more, and none would find the key of another.
        await lock(`fetches of ${projectId}`);
        const known = idempotencyKey === null ? undefined : await find(db, projectId, idempotencyKey);
        if (known?.requestSha256 === requestSha256) return { outcome: 'repeated', fetch: recordOf(known) };
        if (known) return { outcome: 'other', fetchId: known.id };
        const underWay = and(eq(fetches.projectId, projectId), inArray(fetches.status, UNDER_WAY));
        if ((await db.$count(fetches, underWay)) >= maxWaiting) return { outcome: 'full' };
        const values = { ...fetch, updatedAtMs: createdAtMs, dueAtMs: createdAtMs, status: 'queued' as const };
        const [row] = await db.insert(fetches).values(values).returning();
        return { outcome: 'created', fetch: recordOf(row as FetchRow) };
      }),

    async find(id) {
      const [row] = await read.select().from(fetches).where(eq(fetches.id, id));
      return row ? recordOf(row) : null;
    },

    async findByIdempotencyKey(projectId, key) {
      const row = await find(read, projectId, key);
      return row ? recordOf(row) : null;
    },

    async page({ projectId, limit, before, status }) {
      const asked = and(
        eq(fetches.projectId, projectId),
        status === undefined ? undefined : eq(fetches.status, status),
        before === null ? undefined : lt(fetches.id, before),
      );
      const rows = await read.select().from(fetches).where(asked).orderBy(desc(fetches.id)).limit(limit);
      return rows.map(recordOf);
    },

    async unfinished() {
      const rows = await read.select({ id: fetches.id }).from(fetches).where(inArray(fetches.status, UNDER_WAY));
      return rows.map(({ id }) => id);
    },

    cancel: (id) =>
      write(async ({ db }) => {
        const canceled = { ...NO_LEASE, status: 'canceled' as const, failure: null, updatedAtMs: now() };
        const cancelable = and(eq(fetches.id, id), inArray(fetches.status, UNDER_WAY), eq(fetches.accepting, false));
        const [row] = await db.update(fetches).set(canceled).where(cancelable).returning();
        if (row === undefined) return false;
        await tidy(db, recordOf(row));
        return true;
      }),

    ...createFetchLeases(dialect, { now, tidy }),
  };
}

/** Creates the claims of fetches, and the writes of those who hold a lease. @param options.tidy called for a fetch that ends */
function createFetchLeases(
  { tables, read, change, write, lockRows }: Dialect,
  { now, tidy }: { now: () => number; tidy: (db: Executor, fetch: FetchRecord) => Promise<void> },
): Pick<
  FetchRepository,
  'claim' | 'beat' | 'beginAccepting' | 'giveBack' | 'end' | 'held' | 'noteSilence' | 'reclaim'
> {
  const { fetches } = tables;
  const held = ({ fetch, token }: FetchLease) => and(eq(fetches.id, fetch.id), eq(fetches.leaseToken, token));

  /** Writes to a fetch if its lease is still held. */
  const underLease = async (db: Executor, lease: FetchLease, values: Partial<FetchRow>): Promise<boolean> => {
    const change = { updatedAtMs: now(), ...values };
    return changedRows(await db.update(fetches).set(change).where(held(lease))) === 1;
  };

  return {
    async claim() {
      const at = now();
      const isDue = or(lte(fetches.dueAtMs, at), gt(fetches.dueAtMs, at + LONGEST_DELAY_MS));
      const oldest = (db: Executor) =>
        db
          .select({ id: fetches.id })
          .from(fetches)
          .where(and(eq(fetches.status, 'queued'), isDue))
          .orderBy(asc(fetches.dueAtMs), asc(fetches.id))
          .limit(1);
      // A look takes no lock, and most of the time there is nothing.
      if ((await oldest(read)).length === 0) return null;
      const token = randomUUID();
      const claimed = {
        ...{ status: 'fetching' as const, leaseToken: token, leaseBeat: 0, leaseSilentMs: 0, updatedAtMs: at },
        attempts: sql`${fetches.attempts} + 1`,
        fruitlessAttempts: sql`${fetches.fruitlessAttempts} + 1`,
      };
      const [row] = await change((db) => {
        const locked = lockRows(oldest(db), { strength: 'update', skipLocked: true });
        // By `=`, the subquery runs once. By `IN` it might run more than once, and lock a row each time.
        return db.update(fetches).set(claimed).where(sql`${fetches.id} = ${locked}`).returning();
      });
      return row ? { fetch: recordOf(row), token } : null;
    },

    async beat(lease, { receivedBytes, totalBytes, validator, spentMs, fruitful }) {
      const values = {
        ...{ receivedBytes, totalBytes, validator, updatedAtMs: now() },
        leaseBeat: sql`${fetches.leaseBeat} + 1`,
        leaseSilentMs: 0,
        spentMs: sql`${fetches.spentMs} + ${Math.round(spentMs)}`,
        ...(fruitful ? { fruitlessAttempts: 0 } : {}),
      };
      return changedRows(await change((db) => db.update(fetches).set(values).where(held(lease)))) === 1;
    },

    beginAccepting: (lease) => change((db) => underLease(db, lease, { accepting: true })),

    giveBack: (lease, as) =>
      write(async ({ db }) => {
        const query = db.select().from(fetches).where(held(lease));
        const [row] = await lockRows(query, { strength: 'update' });
        if (row === undefined) return false;
        const given = { ...NO_LEASE, status: 'queued' as const };
        const uncounted = { fruitlessAttempts: Math.max(0, row.fruitlessAttempts - 1) };
        if (as.kind === 'released') {
          return underLease(db, lease, { ...given, ...uncounted, dueAtMs: now(), attempts: row.attempts - 1 });
        }
        const { failure, delayMs, fruitless = true } = as;
        const dueAtMs = now() + Math.ceil(delayMs);
        return underLease(db, lease, { ...given, ...(fruitless ? {} : uncounted), failure, dueAtMs });
      }),

    end: (lease, end) =>
      write(async ({ db }) => {
        const done = end.status === 'done' ? { totalBytes: end.receivedBytes, failure: null } : {};
        if (!(await underLease(db, lease, { ...end, ...done, ...NO_LEASE }))) return false;
        await tidy(db, lease.fetch);
        return true;
      }),

    async held() {
      const rows = await read
        .select({ token: fetches.leaseToken, beat: fetches.leaseBeat, silentMs: fetches.leaseSilentMs })
        .from(fetches)
        .where(isNotNull(fetches.leaseToken));
      return rows.flatMap(({ token, beat, silentMs }) => (token === null ? [] : [{ token, beat, silentMs }]));
    },

    async noteSilence({ token, beat, silentMs: before }, silentMs) {
      const asSeen = and(eq(fetches.leaseToken, token), eq(fetches.leaseBeat, beat), eq(fetches.leaseSilentMs, before));
      return changedRows(await change((db) => db.update(fetches).set({ leaseSilentMs: silentMs }).where(asSeen))) === 1;
    },

    async reclaim(token) {
      const values = { ...NO_LEASE, status: 'queued', dueAtMs: now(), updatedAtMs: now() } as const;
      const ofLease = eq(fetches.leaseToken, token);
      return changedRows(await change((db) => db.update(fetches).set(values).where(ofLease))) === 1;
    },
  };
}
