import type { FetchEnd, FetchRecord } from './fetch-repository.ts';

/** States of fetches that are not over, and of those that are. */
export const UNDER_WAY = ['queued', 'fetching'] as const;
export const OVER = ['done', 'failed', 'canceled'] as const;

/** What a fetch that nobody works on has. */
export const NO_FETCH_LEASE = { leaseToken: null, accepting: false } as const;

/** No fetch waits longer: one that is due later than that was given back before the wall clock was set back. */
export const LONGEST_FETCH_DELAY_MS = 3_600_000;

/** A fetch as it is stored: its record, and what the queue needs. */
export interface FetchRow extends FetchRecord {
  requestSha256: string;
  dueAtMs: number;
  accepting: boolean;
  leaseToken: string | null;
  leaseBeat: number;
  leaseSilentMs: number;
}

export function fetchRecordOf(row: FetchRow): FetchRecord {
  const {
    requestSha256: _hash,
    dueAtMs: _due,
    accepting: _accepting,
    leaseToken: _token,
    leaseBeat: _beat,
    leaseSilentMs: _silentMs,
    ...rest
  } = row;
  return rest;
}

/** What an end writes into the row. */
export function endedFetch(end: FetchEnd): Partial<FetchRow> {
  return end.status === 'done' ? { ...end, totalBytes: end.receivedBytes, failure: null } : end;
}
