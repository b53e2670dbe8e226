import { and, desc, lt, type SQL } from 'drizzle-orm';
import type { SQLiteColumn, SQLiteTable } from 'drizzle-orm/sqlite-core';
import type { SqliteDatabase } from './database.ts';

/** Deletes all rows of a group but the latest `keep`. `column` says which came later, and no two rows of the group share its value. */
export function keepLatest(
  tx: Pick<SqliteDatabase, 'select' | 'delete'>,
  { table, group, column, keep }: { table: SQLiteTable; group: SQL; column: SQLiteColumn; keep: number },
): void {
  const oldestKept = tx
    .select({ at: column })
    .from(table)
    .where(group)
    .orderBy(desc(column))
    .limit(1)
    .offset(keep - 1);
  // Where there are fewer rows it is null, and nothing is less than that.
  tx.delete(table)
    .where(and(group, lt(column, oldestKept)))
    .run();
}
