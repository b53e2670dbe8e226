import type { Value } from './tables.ts';

/** Who is alive says so itself, again and again: workers and nodes of the old deployment are none of the new one. */
export const LEFT_BEHIND: readonly string[] = ['workers', 'region_nodes'];

const toNull = () => null;
const toZero = () => 0;
const toFalse = () => false;

/**
 * What of a row is about processes, which do not move: leases and locks are free in the copy. The bytes of resumable uploads are in the
 * old service's folder, so that those that are open are over in the copy, and their senders begin anew.
 */
export const CARRIED: Readonly<Record<string, Readonly<Record<string, (value: Value) => Value>>>> = {
  jobs: { lease_token: toNull, lease_worker: toNull, lease_beat: toZero, progress: toNull },
  fetches: {
    lease_token: toNull,
    lease_beat: toZero,
    accepting: toFalse,
    status: (status) => (status === 'fetching' ? 'queued' : status),
  },
  uploads: {
    lock_holder: toNull,
    lock_beat: toZero,
    lock_release_requested: toFalse,
    state: (state) => (state === 'open' ? 'expired' : state),
  },
};
