import { createRequire } from 'node:module';
import type BetterSqlite3 from 'better-sqlite3';

const [major = 0] = process.versions.node.split('.').map(Number);

/**
 * better-sqlite3 in the version that this Node.js can run: 13 needs Node 22 or newer, and 12 ends the whole process on Node
 * 24 (docs/adr/0009-two-versions-of-better-sqlite3.md). Import it from here only.
 */
const Database = createRequire(import.meta.url)(
  major >= 22 ? 'better-sqlite3' : 'better-sqlite3-node20',
  // Both versions have the same interface, but the compiler does not know the type of a `require`.
) as typeof BetterSqlite3;

/** An open database file. */
export type Database = BetterSqlite3.Database;
export { Database };
