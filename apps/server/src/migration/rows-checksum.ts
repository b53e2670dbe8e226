import { createHash } from 'node:crypto';
import type { Value } from './tables.ts';

/** How many rows a table has, and the SHA-256 of all of them in the order of their primary key. */
export interface TableSum {
  rows: number;
  sha256: string;
}

/** Sums up a table row by row, from whichever database: equal rows in equal order give equal sums. */
export function createRowsChecksum(): { add(row: readonly Value[]): void; sum(): TableSum } {
  const hash = createHash('sha256');
  let rows = 0;
  return {
    add(row) {
      rows += 1;
      hash.update(JSON.stringify(row.map(canonical))).update('\n');
    },
    sum: () => ({ rows, sha256: hash.digest('hex') }),
  };
}

/** Drivers differ: a large integer is a string to one and a number to the other, a boolean is 0 or 1. */
function canonical(value: Value): string | null {
  if (value === null) return null;
  if (Buffer.isBuffer(value)) return value.toString('hex');
  return typeof value === 'boolean' ? String(Number(value)) : String(value);
}
