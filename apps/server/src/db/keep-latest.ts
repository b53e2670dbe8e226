import { and, desc, lt, type SQL } from 'drizzle-orm';
import type { PgColumn, PgTable } from 'drizzle-orm/pg-core';
import type { Executor } from './dialect.ts';

/** Deletes all rows of a group but the latest `keep`. `column` orders them, and no two rows of the group share its value. */
export async function keepLatest(
  db: Executor,
  { table, group, column, keep }: { table: PgTable; group: SQL | undefined; column: PgColumn; keep: number },
): Promise<void> {
  const oldestKept = db
    .select({ at: column })
    .from(table)
    .where(group)
    .orderBy(desc(column))
    .limit(1)
    .offset(keep - 1);
  // If there are fewer rows, it is null, and no value compares as less.
  await db.delete(table).where(and(group, lt(column, oldestKept)));
}
