import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Logger } from './base/logger.ts';
import { type Config, workerEnvironment } from './config.ts';
import type { Repositories } from './db/repositories.ts';
import { layFoundation } from './foundation.ts';
import { createWorkerSupervisor, type WorkerSupervisor } from './processing/supervisor.ts';
import { measureWaits, type WaitTotal } from './processing/worker-waits.ts';
import { createWorker } from './processing/worker.ts';
import { createWorkerScratch, scratchFolderOf } from './processing/worker-scratch.ts';
import { resolveRegion } from './regions/region-setting.ts';

/** A running worker without a service around it. */
export interface WorkerService {
  url: null;
  /** As that of a service. */
  storageKnown: Promise<void>;
  /** There is something in the queue. */
  wake(): void;
  stop(): Promise<void>;
}

/**
 * Builds and starts a worker alone: beside a service on the same data folder, or on any machine, with a folder of its own, where database
 * and store are on others.
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
  const abandoned = createWorkerScratch({ root: dirname(dataDir.scratchDir), jobs, logger });
  let stopped = false;
  // In another storage than the database's every original would be missing. Where it is another's, `storageKnown` ends the process.
  storageBinding.known.then(
    () => {
      if (stopped) return;
      worker.start();
      logger.info({ worker: id, concurrency: config.workerConcurrency }, 'the worker takes jobs');
    },
    () => undefined,
  );
  abandoned.start();
  engine.warmUp('render');
  // Where several machines write, nobody else wakes it. Every event may be the one that puts a job into the queue.
  const deafen = repositories.shared ? repositories.events.onAppended(() => worker.wake()) : () => undefined;
  return {
    url: null,
    storageKnown: storageBinding.known,
    wake: () => worker.wake(),
    async stop() {
      stopped = true;
      deafen();
      await abandoned.stop();
      await worker.stop();
      const { claims, upkeep, leaseWrites } = times;
      const waited = { claims: rounded(claims), upkeep: rounded(upkeep), leaseWrites: rounded(leaseWrites) };
      logger.info(waited, 'the worker signed off');
      await engine.stop();
      await rm(dataDir.scratchDir, { recursive: true, force: true });
      await foundation.close();
    },
  };
}

function rounded({ calls, ms }: WaitTotal): WaitTotal {
  return { calls, ms: Math.round(ms) };
}

/** A worker in a process of its own, which is started and kept alive. */
export function superviseWorker(config: Config, jobs: Repositories['jobs'], logger: Logger): WorkerSupervisor {
  const fromSource = import.meta.url.endsWith('.ts');
  return createWorkerSupervisor({
    entry: fileURLToPath(new URL(fromSource ? './main.ts' : './main.js', import.meta.url)),
    execArgv: fromSource ? ['--conditions=@mds/source', '--import', import.meta.resolve('tsx')] : [],
    env: workerEnvironment(config),
    jobs,
    isHere: (workerId) => workerId.startsWith(machinePrefix()),
    logger,
  });
}

/** What the ids of a machine's workers begin with. */
function machinePrefix(): string {
  return `${hostname()}:`;
}
