import type { VersionScope } from './changes.ts';
import type { Dialect } from './dialect.ts';

/** Shows if anything that a reader could see was written: media, regions, projects and, in the scope `assets`, asset records. */
export interface Versions {
  /**
   * Changes before our own writes become visible, and soon after those of other processes, except to asset records. While the database
   * cannot report those, every call returns a new number. Costs nothing.
   */
  stamp(scope: VersionScope): number;
  /** Each number changes with every such write of any process. Asks the database. */
  read(): Promise<Record<VersionScope, number>>;
}

/** The row of `versions` that only shows that the database can be written. No reader sees it change. */
export const PROBE_VERSION = 'probe';

/** Creates {@link Versions}: sums of counters that never go back. */
export function createVersions({ prepareText, stamp }: Dialect): Versions {
  const total = prepareText<Record<VersionScope, number>>(
    'versions_total',
    `SELECT CAST(coalesce(sum(value), 0) AS bigint) AS assets,
       CAST(coalesce(sum(value) FILTER (WHERE name <> 'assets'), 0) AS bigint) AS others
     FROM versions WHERE name <> $1`,
    { isUrgent: true },
  );
  return {
    stamp,
    read: async () => (await total(PROBE_VERSION))[0] ?? { assets: 0, others: 0 },
  };
}

/** Reads a counter: a number that changes with every write, by whichever process. */
export function createVersionReader({ prepareText }: Dialect): (name: string) => Promise<number> {
  const value = prepareText<{ value: number }>('version', 'SELECT value FROM versions WHERE name = $1', {
    isUrgent: true,
  });
  return async (name) => (await value(name))[0]?.value ?? 0;
}
