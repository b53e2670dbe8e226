import { AppError } from './base/app-error.ts';
import type { Logger } from './base/logger.ts';
import type { Config } from './config.ts';
import type { ControlMigrationsParts } from './control-api/migrations.ts';
import type { FetchRunner } from './fetches/fetch-runner.ts';
import type { Foundation } from './foundation.ts';
import { removeChangeLog } from './migration/change-log.ts';
import { createMigration } from './migration/migration.ts';
import { openSourceDatabase } from './migration/source-database.ts';
import type { WriteGate } from './migration/write-gate.ts';
import type { WorkerSupervisor } from './processing/supervisor.ts';

/**
 * What moves a running deployment. While it is frozen nobody passes the gate, no file is fetched and no worker runs; heartbeats and the
 * records of deliveries go on, and what is written of them after the copy has begun is of no use to the destination.
 */
export function composeMigration(
  config: Config,
  parts: {
    foundation: Pick<Foundation, 'dataDir' | 'store' | 'repositories'>;
    writes: WriteGate;
    fetchRunner: FetchRunner;
    supervisor: WorkerSupervisor | null;
    logger: Logger;
  },
): ControlMigrationsParts {
  const { writes, fetchRunner, supervisor, logger } = parts;
  const { dataDir, store, repositories } = parts.foundation;
  const { scratchDir } = dataDir;
  // Whoever was killed in the middle of a move could not: it would note changes for ever.
  if (!repositories.shared) removeChangeLog(dataDir.databaseFile);
  const migration = createMigration({
    store,
    openSource: () => openSourceDatabase(dataDir.databaseFile),
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
    s3Endpoint: config.s3Endpoint,
    async openDestination({ database_url: databaseUrl, storage_url: storageUrl, s3_endpoint: s3Endpoint = null }) {
      const { openDestination } = await import('./migration/open-destination.ts');
      const { id: deploymentId } = repositories.deployment;
      return openDestination({ databaseUrl, storageUrl, s3Endpoint, deploymentId, scratchDir, logger });
    },
  };
}
