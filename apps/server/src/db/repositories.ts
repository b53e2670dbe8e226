import type { JobQueue } from '../jobs/job-queue.ts';
import type { AssetRepository, FormatProofRepository, RegionRepository } from './delivery-repository.ts';
import type { EventRepository } from './event-repository.ts';
import type { MediaRepository, ProjectRepository } from './media-repository.ts';

/** Everything that is kept in the database, behind ports in the service's own words. */
export interface Repositories {
  media: MediaRepository;
  projects: ProjectRepository;
  assets: AssetRepository;
  regions: RegionRepository;
  formatProofs: FormatProofRepository;
  jobs: JobQueue;
  events: EventRepository;
  /** Resolves when the database answers and can be written. */
  probe(): Promise<void>;
  close(): Promise<void>;
}
