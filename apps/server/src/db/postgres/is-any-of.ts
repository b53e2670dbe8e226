import { type Column, type SQL, sql } from 'drizzle-orm';

/**
 * Whether a column is one of these values, however many: they are one parameter, of which a statement has 65,535 at most. A film of some
 * hours has more files.
 */
export function isAnyOf(column: Column, values: readonly (string | number)[]): SQL {
  return sql`${column} = ANY(${sql.param(values.map((value) => column.mapToDriverValue(value)))})`;
}
