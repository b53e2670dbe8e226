import { type ColumnTypes, defineTables } from '../tables.ts';
import { sqliteColumns } from './columns.ts';

/**
 * The tables of SQLite, for the repositories and for drizzle-kit. Repositories are written once, against the types of PostgreSQL.
 * The compiler cannot see that SQLite's builders accept the same calls and map to the same values; `schema-parity.test.ts` and the
 * conformance suites prove it.
 */
export const {
  projects,
  projectHosts,
  tokens,
  media,
  mediaRenditions,
  renditionFiles,
  deployments,
  pieceDigests,
  contentRemovals,
  jobs,
  processingAttempts,
  events,
  fetches,
  workers,
  regions,
  regionNodes,
  assets,
  formatProofs,
  uploads,
  versions,
} = defineTables(sqliteColumns as unknown as ColumnTypes);
