import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Logger } from './base/logger.ts';
import { type Config, configOfWorker, environmentWithoutSettings } from './config.ts';
import type { Repositories } from './db/repositories.ts';
import { layFoundation } from './foundation.ts';
import { createWorkerSupervisor, type WorkerSupervisor } from './processing/supervisor.ts';
import { createWorker } from './processing/worker.ts';
import { createWorkerScratch, scratchFolderOf } from './processing/worker-scratch.ts';
import { measureWaits, type WaitTotal } from './processing/worker-waits.ts';
import { resolveRegion } from './regions/region-setting.ts';

/** A running worker without a service around it. */
export interface WorkerService {
  url: null;
  /** As in a service. */
  storageKnown: Promise<void>;
  /** Looks into the queue at once. */
  wake(): void;
  stop(): Promise<void>;
}

/**
 * Builds and starts a worker without a service: on the data folder of a service, or, if database and store are on other machines, on any
 * machine with a data folder of its own.
 */
export async function composeWorker(config: Config, logger: Logger): Promise<WorkerService> {
  const id = `${machinePrefix()}${process.pid}:${randomUUID().slice(0, 8)}`;
  const foundation = await layFoundation(config, logger, { scratch: scratchFolderOf(id) });
  const { dataDir, repositories, store, storageBinding, engine, presets } = foundation;
  const { jobs, media, times } = measureWaits(repositories);
  const worker = createWorker({
    id,
    host: hostname(),
    region: resolveRegion(config.region).code,
    jobs,
    media,
    pieceDigests: repositories.pieceDigests,
    store,
    engine,
    presets,
    scratchDir: dataDir.scratchDir,
    concurrency: config.workerConcurrency,
    logger,
  });
  const scratchCleaner = createWorkerScratch({ root: dirname(dataDir.scratchDir), jobs, logger });
  let stopped = false;
  // In another deployment's storage every original would be missing. If it is one, `storageKnown` ends the process.
  storageBinding.known.then(
    () => {
      if (stopped) return;
      worker.start();
      logger.info({ worker: id, concurrency: config.workerConcurrency }, 'worker started');
    },
    () => undefined,
  );
  scratchCleaner.start();
  engine.warmUp('render');
  // If several machines write, no service wakes it. Any event may be one that queued a job.
  const unsubscribe = repositories.shared ? repositories.events.onAppended(() => worker.wake()) : () => undefined;
  return {
    url: null,
    storageKnown: storageBinding.known,
    wake: () => worker.wake(),
    async stop() {
      stopped = true;
      unsubscribe();
      await scratchCleaner.stop();
      await worker.stop();
      const { claims, upkeep, leaseWrites } = times;
      const waited = { claims: rounded(claims), upkeep: rounded(upkeep), leaseWrites: rounded(leaseWrites) };
      logger.info(waited, 'worker stopped');
      await engine.stop();
      await rm(dataDir.scratchDir, { recursive: true, force: true });
      await foundation.close();
    },
  };
}

function rounded({ calls, ms }: WaitTotal): WaitTotal {
  return { calls, ms: Math.round(ms) };
}

/** Starts a worker in a process of its own, which is sent its configuration, and keeps it alive. */
export function superviseWorker(config: Config, jobs: Repositories['jobs'], logger: Logger): WorkerSupervisor {
  const fromSource = import.meta.url.endsWith('.ts');
  return createWorkerSupervisor({
    entry: fileURLToPath(new URL(fromSource ? './worker-process.ts' : './worker-process.js', import.meta.url)),
    execArgv: fromSource ? ['--conditions=@mds/source', '--import', import.meta.resolve('tsx')] : [],
    // Handed on without the settings, and not read: PATH, HOME, and the credentials that the SDK of S3 looks for.
    env: environmentWithoutSettings(process.env),
    config: configOfWorker(config),
    jobs,
    isHere: (workerId) => workerId.startsWith(machinePrefix()),
    logger,
  });
}

/** The ids of a machine's workers begin with this. */
function machinePrefix(): string {
  return `${hostname()}:`;
}
