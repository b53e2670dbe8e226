import { AppError } from '../base/app-error.ts';
import type { Logger } from '../base/logger.ts';
import type { Repositories } from '../db/repositories.ts';
import type { FetchRunner } from '../fetches/fetch-runner.ts';
import type { WorkerSupervisor } from '../processing/supervisor.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import type { StorageSettings } from '../storage/settings.ts';
import { removeChangeLog } from './change-log.ts';
import { createMigration } from './migration.ts';
import { openSourceDatabase } from './source-database.ts';
import type { WriteGate } from './write-gate.ts';

/**
 * Moves a running deployment to another database and storage. While it is frozen, the write gate is closed, and no fetch and no worker
 * runs. Heartbeats and records of deliveries are still written; the destination does not need those written after the copy began.
 */
export function composeMigration(parts: {
  settings: Pick<StorageSettings, 's3Endpoint'>;
  repositories: Pick<Repositories, 'shared' | 'jobs' | 'deployment'>;
  store: ObjectStore;
  dataDir: { databaseFile: string; scratchDir: string };
  writes: WriteGate;
  fetchRunner: FetchRunner;
  supervisor: WorkerSupervisor | null;
  logger: Logger;
}) {
  const { settings, repositories, store, writes, fetchRunner, supervisor, logger } = parts;
  const { databaseFile, scratchDir } = parts.dataDir;
  // A process that was killed during a move left it behind, and it would grow for ever.
  if (!repositories.shared) removeChangeLog(databaseFile);
  const migration = createMigration({
    store,
    openSource: () => openSourceDatabase(databaseFile),
    scratchDir,
    logger,
    async freeze() {
      await Promise.all([writes.close(), fetchRunner.stop(), supervisor?.stop()]);
      if ((await repositories.jobs.workers()).length === 0) return;
      throw new AppError(
        'state_conflict',
        'A worker that this service did not start is at work. Stop it, then begin again.',
      );
    },
    async unfreeze() {
      await fetchRunner.start();
      supervisor?.start();
      writes.open();
    },
    moved: () => writes.closeForGood(),
  });
  return {
    migration: repositories.shared ? null : migration,
    s3Endpoint: settings.s3Endpoint,
    async openDestination(where: { database_url: string; storage_url: string; s3_endpoint?: string | undefined }) {
      const { openDestination } = await import('./open-destination.ts');
      const { database_url: databaseUrl, storage_url: storageUrl, s3_endpoint: s3Endpoint = null } = where;
      const { id: deploymentId } = repositories.deployment;
      return openDestination({ databaseUrl, storageUrl, s3Endpoint, deploymentId, scratchDir, logger });
    },
  };
}
