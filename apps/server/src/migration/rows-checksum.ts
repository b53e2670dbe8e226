import { createHash } from 'node:crypto';
import type { Value } from './column-rules.ts';

/** The number of rows of a table, and the sum of the SHA-256 of each of them, modulo 2^256: equal rows in any order give equal sums. */
export interface TableSum {
  rows: number;
  /** Lower-case hex. */
  sha256: string;
}

/**
 * Sums up a table row by row, from either database. For a changed row, the old values are subtracted and the new ones
 * added.
 */
export interface RowsChecksum {
  add(row: readonly Value[]): void;
  remove(row: readonly Value[]): void;
  sum(): TableSum;
}

/** Hashes are summed, not concatenated: the cost of a change depends on its size alone (Bellare and Micciancio 1997). */
export function createRowsChecksum(): RowsChecksum {
  let total = 0n;
  let rows = 0;
  return {
    add(row) {
      total = BigInt.asUintN(256, total + hashOf(row));
      rows += 1;
    },
    remove(row) {
      total = BigInt.asUintN(256, total - hashOf(row));
      rows -= 1;
    },
    sum: () => ({ rows, sha256: total.toString(16).padStart(64, '0') }),
  };
}

function hashOf(row: readonly Value[]): bigint {
  return BigInt(`0x${createHash('sha256').update(rowText(row)).digest('hex')}`);
}

/** A row as text: the same for equal rows of either database. */
export function rowText(row: readonly Value[]): string {
  return JSON.stringify(row.map(canonical));
}

/** Drivers differ: a large integer is a string to one and a number to the other; a boolean is 0 or 1. */
function canonical(value: Value): string | null {
  if (value === null) return null;
  if (Buffer.isBuffer(value)) return value.toString('hex');
  return typeof value === 'boolean' ? String(Number(value)) : String(value);
}
