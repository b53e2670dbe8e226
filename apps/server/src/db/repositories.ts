import type { JobQueue } from '../jobs/job-queue.ts';
import type { AssetRepository, FormatProofRepository, RegionRepository } from './delivery-repository.ts';
import type { EventRepository } from './event-repository.ts';
import type { FetchRepository } from './fetch-repository.ts';
import type { MediaRepository, ProjectRepository } from './media-repository.ts';
import type { PieceDigestRepository } from './piece-digest-repository.ts';
import type { UploadRepository } from './upload-repository.ts';

/** Tells whether anything that a reader could see was written since: media, assets, regions, projects. */
export interface Versions {
  /** Changes with every such write of this process, before anybody in it can see the write. Costs nothing. */
  stamp(): number;
  /** Changes with every such write of any process; asks the database. */
  read(): Promise<number>;
}

/** Everything that is kept in the database, behind ports in the service's own words. */
export interface Repositories {
  /** Whether processes on other machines may use the same database. */
  readonly shared: boolean;
  media: MediaRepository;
  projects: ProjectRepository;
  assets: AssetRepository;
  regions: RegionRepository;
  pieceDigests: PieceDigestRepository;
  formatProofs: FormatProofRepository;
  jobs: JobQueue;
  fetches: FetchRepository;
  events: EventRepository;
  uploads: UploadRepository;
  versions: Versions;
  /** Resolves when the database answers and can be written. */
  probe(): Promise<void>;
  close(): Promise<void>;
}
