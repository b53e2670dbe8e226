import { defineTables } from '../tables.ts';
import { postgresColumns } from './columns.ts';

/** The tables of PostgreSQL, for the repositories and for drizzle-kit. */
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
} = defineTables(postgresColumns);
