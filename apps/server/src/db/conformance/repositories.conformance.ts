import { describe } from 'vitest';
import type { Repositories } from '../repositories.ts';
import { attemptsConformance } from './attempts.conformance.ts';
import { contentRemovalsConformance } from './content-removals.conformance.ts';
import { databaseConformance } from './database.conformance.ts';
import { deliveryConformance } from './delivery.conformance.ts';
import { eventsConformance } from './events.conformance.ts';
import { fetchesConformance } from './fetches.conformance.ts';
import { formatProofsConformance } from './format-proofs.conformance.ts';
import { jobRecordsConformance } from './job-records.conformance.ts';
import { jobsConformance } from './jobs.conformance.ts';
import { mediaConformance } from './media.conformance.ts';
import { projectsConformance } from './projects.conformance.ts';
import { regionsConformance } from './regions.conformance.ts';
import { renditionFilesConformance } from './rendition-files.conformance.ts';
import { renditionsConformance } from './renditions.conformance.ts';
import { repositoriesFixture } from './repositories.fixture.ts';
import { uploadsConformance } from './uploads.conformance.ts';
import { workersConformance } from './workers.conformance.ts';

/**
 * Tests that the repositories of every database must pass.
 * @param open opens repositories over an empty database; the suite closes them
 */
export function repositoriesConformance(adapter: string, open: () => Promise<Repositories>): void {
  describe(`${adapter}: repositories conformance`, () => {
    const fixture = repositoriesFixture(open);
    mediaConformance(fixture);
    jobsConformance(fixture);
    jobRecordsConformance(fixture);
    attemptsConformance(fixture);
    workersConformance(fixture);
    contentRemovalsConformance(fixture);
    renditionsConformance(fixture);
    renditionFilesConformance(fixture);
    eventsConformance(fixture);
    deliveryConformance(fixture);
    regionsConformance(fixture);
    projectsConformance(fixture);
    fetchesConformance(fixture);
    formatProofsConformance(fixture);
    uploadsConformance(fixture);
    databaseConformance(fixture);
  });
}
