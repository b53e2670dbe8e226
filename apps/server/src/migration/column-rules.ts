/** A value as the drivers of both databases take and give it. */
export type Value = string | number | boolean | Buffer | null;

/** Who is alive says so itself, again and again: workers and nodes of the old deployment are none of the new one. */
export const SKIPPED_TABLES: readonly string[] = ['workers', 'region_nodes'];

/**
 * Written with every delivery, and bounded: the latest records of each region, and a counter for each kind of answer. To note every
 * change would cost more than to copy them whole, once nobody writes any more.
 */
export const TABLES_COPIED_LAST: readonly string[] = ['assets', 'versions'];

/** What a column is in the copy: a value that does not depend on what it is here, or one that is made of that. */
export type ColumnRule = { left: Value } | { made: (value: Value) => Value };

const NONE: ColumnRule = { left: null };
const ZERO: ColumnRule = { left: 0 };
const FALSE: ColumnRule = { left: false };

/**
 * What of a row is about processes, which do not move: leases and locks are free in the copy. The bytes of resumable uploads are in the
 * old service's folder, so that those that are open are over in the copy, and their senders begin anew.
 */
export const COLUMN_RULES: Readonly<Record<string, Readonly<Record<string, ColumnRule>>>> = {
  jobs: { lease_token: NONE, lease_worker: NONE, lease_beat: ZERO, lease_silent_ms: ZERO, progress: NONE },
  fetches: {
    lease_token: NONE,
    lease_beat: ZERO,
    lease_silent_ms: ZERO,
    accepting: FALSE,
    status: { made: (status) => (status === 'fetching' ? 'queued' : status) },
  },
  uploads: {
    lock_holder: NONE,
    lock_beat: ZERO,
    lock_release_requested: FALSE,
    state: { made: (state) => (state === 'open' ? 'expired' : state) },
  },
};
