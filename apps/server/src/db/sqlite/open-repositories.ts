import type { Repositories } from '../repositories.ts';
import { createVersions, openDatabase, PROBE_VERSION } from './database.ts';
import { createAssetRepository, createFormatProofRepository, createRegionRepository } from './delivery-repository.ts';
import { createEventRepository, createEventWriter } from './event-repository.ts';
import { createJobQueue } from './job-queue.ts';
import { createMediaRepository } from './media-repository.ts';
import { createPieceDigestRepository } from './piece-digest-repository.ts';
import { createProjectRepository } from './project-repository.ts';

/**
 * Opens the embedded database and every repository over it.
 * @param file path of the SQLite file, or `:memory:`
 * @throws DatabaseRefusedError where the file is not one to touch
 */
export function openSqliteRepositories(file: string): Repositories {
  const db = openDatabase(file);
  const probe = db.$client.prepare(
    'INSERT INTO versions (name, value) VALUES (?, 1) ON CONFLICT DO UPDATE SET value = value + 1',
  );
  const eventWriter = createEventWriter();
  return {
    media: createMediaRepository(db, { events: eventWriter }),
    projects: createProjectRepository(db),
    assets: createAssetRepository(db),
    regions: createRegionRepository(db),
    pieceDigests: createPieceDigestRepository(db),
    formatProofs: createFormatProofRepository(db),
    jobs: createJobQueue(db, { events: eventWriter }),
    events: createEventRepository(db, eventWriter),
    versions: createVersions(db),
    async probe() {
      probe.run(PROBE_VERSION);
    },
    async close() {
      db.$client.close();
    },
  };
}
