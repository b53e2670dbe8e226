/** A value in the form of both database drivers. */
export type Value = string | number | boolean | Buffer | null;

/** Living processes announce themselves again and again: workers and nodes of the old deployment are none of the new one. */
export const SKIPPED_TABLES: readonly string[] = ['workers', 'region_nodes'];

/**
 * Written with every delivery, and bounded: the latest records of each region, and counters for each kind of answer. Recording every change
 * would cost more than copying them whole after the last write.
 */
export const TABLES_COPIED_LAST: readonly string[] = ['assets', 'versions'];

/** The value of a column in the copy: fixed, or derived from the source's. */
export type ColumnRule = { left: Value } | { made: (value: Value) => Value };

const NONE: ColumnRule = { left: null };
const ZERO: ColumnRule = { left: 0 };
const FALSE: ColumnRule = { left: false };

/**
 * Columns about processes, which do not move: leases and locks are free in the copy. The bytes of resumable uploads are in the old
 * service's folder: open uploads are over in the copy, and their senders begin anew.
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
