import type { Repositories } from '../repositories.ts';
import { createContentRemovalRepository } from './content-removal-repository.ts';
import { createVersions, openDatabase, PROBE_VERSION } from './database.ts';
import { createAssetRepository, createFormatProofRepository, createRegionRepository } from './delivery-repository.ts';
import { deploymentOf } from './deployment.ts';
import { createEventRepository, createEventWriter } from './event-repository.ts';
import { createFetchRepository } from './fetch-repository.ts';
import { createGroupCommit } from './group-commit.ts';
import { createJobQueue } from './job-queue.ts';
import { createLockQueue } from './lock-queue.ts';
import { createMediaRepository } from './media-repository.ts';
import { createPieceDigestRepository } from './piece-digest-repository.ts';
import { createProjectRepository } from './project-repository.ts';
import { createUploadRepository } from './upload-repository.ts';

/** Readiness and status want to know soon whether the database can be written; in milliseconds. */
const PROBE_PATIENCE_MS = 1_000;

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
  const locks = createLockQueue();
  const { patient } = locks;
  const probing = patient(
    {
      async probe() {
        probe.run(PROBE_VERSION);
      },
    },
    PROBE_PATIENCE_MS,
  );
  const repositories: Repositories = {
    shared: false,
    deployment: deploymentOf(db),
    media: patient(createMediaRepository(db, { events: eventWriter, commits: createGroupCommit(db) })),
    projects: patient(createProjectRepository(db)),
    assets: patient(createAssetRepository(db)),
    regions: patient(createRegionRepository(db)),
    pieceDigests: patient(createPieceDigestRepository(db)),
    contentRemovals: patient(createContentRemovalRepository(db)),
    formatProofs: patient(createFormatProofRepository(db)),
    jobs: patient(createJobQueue(db, { events: eventWriter })),
    fetches: patient(createFetchRepository(db)),
    events: patient(createEventRepository(db, eventWriter)),
    uploads: patient(createUploadRepository(db)),
    versions: patient(createVersions(db)),
    // It has one, which is this process's own.
    waitMs: () => 0,
    probe: probing.probe,
    async close() {
      await locks.drained();
      db.$client.close();
    },
  };
  // Whoever opens the file waits for the lock as SQLite does; from now on nobody's event loop does.
  db.$client.pragma('busy_timeout = 0');
  return repositories;
}
