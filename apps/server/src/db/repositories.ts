import type { ContentRemovalRepository } from './content-removal-repository.ts';
import type { AssetRepository, FormatProofRepository, RegionRepository } from './delivery-repository.ts';
import type { Deployment } from './deployment.ts';
import type { EventRepository } from './event-repository.ts';
import type { FetchRepository } from './fetch-repository.ts';
import type { JobQueue } from './job-queue.ts';
import type { MediaRepository, ProjectRepository } from './media-repository.ts';
import type { PieceDigestRepository } from './piece-digest-repository.ts';
import type { UploadRepository } from './upload-repository.ts';

/**
 * What an answer tells of: asset records, which every region that delivers writes twice a second, or anything but them. Whatever tells of
 * asset records may tell of the rest, too.
 */
export type ToldOf = 'assets' | 'others';

/** Tells whether anything that a reader could see was written since: media, regions, projects, and for those who tell of them assets. */
export interface Versions {
  /**
   * Changes with every such write of this process, before anybody in it can see the write, and soon after one of another process where
   * the database tells of those, which it does of all but assets. Where it should and does not, for now, every call gives another
   * number. Costs nothing.
   */
  stamp(of: ToldOf): number;
  /** Each changes with every such write of any process; asks the database. */
  read(): Promise<Record<ToldOf, number>>;
}

/** Everything that is kept in the database, behind ports in the service's own words. */
export interface Repositories {
  /**
   * Whether other processes, on other machines perhaps, may be using the same database. What only its one owner may do at its start
   * (take back every lease, unlock every upload) must not be done where they may.
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
   * How long a call that comes now will wait for its turn, in milliseconds: as long as the one that has waited longest, or as long as
   * those before it take at the pace at which calls were served lately. 0: none waits. Costs nothing.
   */
  waitMs(): number;
  /** Resolves when the database answers and can be written. */
  probe(): Promise<void>;
  close(): Promise<void>;
}
