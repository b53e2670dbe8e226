import { type ContentRemovalRepository, createContentRemovalRepository } from './content-removal-repository.ts';
import {
  type AssetRepository,
  createAssetRepository,
  createFormatProofRepository,
  createRegionRepository,
  type FormatProofRepository,
  type RegionRepository,
} from './delivery-repository.ts';
import type { Deployment } from './deployment.ts';
import type { Dialect } from './dialect.ts';
import { createEventRepository, type EventRepository } from './event-repository.ts';
import { createFetchRepository, type FetchRepository } from './fetch-repository.ts';
import { createJobQueries, createWorkerRows } from './job-queries.ts';
import type { JobQueue } from './job-queue.ts';
import { createJobClaims, createJobLeases } from './job-writes.ts';
import { createLeaseWrites } from './lease-writes.ts';
import { createMediaJobs } from './media-jobs.ts';
import { createKnownMedia, createMediaQueries } from './media-queries.ts';
import type { MediaRepository } from './media-repository.ts';
import { createMediaWrites } from './media-writes.ts';
import { createPieceDigestRepository, type PieceDigestRepository } from './piece-digest-repository.ts';
import { createProjectRepository, type ProjectRepository } from './project-repository.ts';
import { createRenditionQueries } from './rendition-queries.ts';
import { createRenditionRows } from './rendition-rows.ts';
import { createUploadRepository, type UploadRepository } from './upload-repository.ts';
import { createVersions, type Versions } from './versions.ts';

/** Everything that the database stores, behind ports in the service's own terms. */
export interface Repositories {
  /**
   * Whether other processes, perhaps on other machines, may use the same database. If not, its one owner takes back every lease and
   * unlocks every upload when it starts.
   */
  readonly shared: boolean;
  readonly deployment: Deployment;
  media: MediaRepository;
  projects: ProjectRepository;
  assets: AssetRepository;
  regions: RegionRepository;
  pieceDigests: PieceDigestRepository;
  contentRemovals: ContentRemovalRepository;
  formatProofs: FormatProofRepository;
  jobs: JobQueue;
  fetches: FetchRepository;
  events: EventRepository;
  uploads: UploadRepository;
  versions: Versions;
  /**
   * The expected wait of a new call, in milliseconds: the longest wait so far, or the time for the calls before it at
   * the recent pace. 0: none waits. Costs nothing.
   */
  waitMs(): number;
  /** Resolves when the database answers and can be written. */
  probe(): Promise<void>;
  close(): Promise<void>;
}

/** The repositories alone, without opening and closing their database. */
export type OpenRepositories = Omit<Repositories, 'shared' | 'deployment' | 'waitMs' | 'probe' | 'close'>;

/**
 * Creates every repository over a database.
 * @param guard wraps each repository, so that its methods retry and fail in the way of the database
 * @param now the wall clock, milliseconds since the epoch
 */
export function createRepositories(
  dialect: Dialect,
  guard: <T extends object>(repository: T) => T,
  now: () => number = Date.now,
): OpenRepositories {
  const known = createKnownMedia(dialect);
  const renditions = createRenditionRows(dialect);
  const jobs = createMediaJobs(dialect, renditions);
  const parts = { dialect, known, jobs, mediaJobs: jobs, renditions, now };
  return {
    media: guard({
      ...createMediaQueries(dialect, known),
      ...createRenditionQueries(dialect),
      ...createMediaWrites(parts),
      ...createLeaseWrites(parts),
    }),
    jobs: guard({
      ...createJobClaims(parts),
      ...createJobLeases(parts),
      ...createJobQueries(parts),
      ...createWorkerRows(dialect),
      attempts: jobs.attempts,
    }),
    projects: guard(createProjectRepository(dialect, now)),
    assets: guard(createAssetRepository(dialect)),
    regions: guard(createRegionRepository(dialect)),
    pieceDigests: guard(createPieceDigestRepository(dialect)),
    contentRemovals: guard(createContentRemovalRepository(dialect)),
    formatProofs: guard(createFormatProofRepository(dialect)),
    fetches: guard(createFetchRepository(dialect, { now })),
    events: guard(createEventRepository(dialect)),
    uploads: guard(createUploadRepository(dialect)),
    versions: guard(createVersions(dialect)),
  };
}
