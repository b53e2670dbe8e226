import { createHash } from 'node:crypto';
import { sql } from 'drizzle-orm';
import type { NodePgDatabase } from 'drizzle-orm/node-postgres';

/** First number of advisory locks that are ours ("MDS"); those of one number are another space and cannot meet them. */
export const ADVISORY_CLASS = 0x4d4453;
/** Second numbers: who brings the schema up to date, who writes events, and who says which deployment a new database is of. */
export const MIGRATION_LOCK = 1;
export const EVENTS_LOCK = 2;
export const DEPLOYMENT_LOCK = 3;

/**
 * Has transactions that name the same thing go one after the other, each until it ends: for decisions about rows that are not there
 * yet, which no lock of a row can protect. Names are locked in an order, so that no two wait for each other.
 */
export async function lockNames(db: NodePgDatabase, names: readonly string[]): Promise<void> {
  const keys = [...new Set(names)].map((name) => createHash('sha256').update(name).digest().readBigInt64BE());
  keys.sort((a, b) => (a < b ? -1 : 1));
  for (const key of keys) await db.execute(sql`SELECT pg_advisory_xact_lock(${key.toString()}::bigint)`);
}
