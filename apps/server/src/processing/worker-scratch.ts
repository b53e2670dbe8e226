import { createHash } from 'node:crypto';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from '../base/logger.ts';
import type { JobQueue } from '../db/job-queue.ts';

const FOLDER = /^worker-[0-9a-f]{16}$/;
/** Longer than a worker takes from making its folder to announcing itself. */
const INTERVAL_MS = 20_000;

export interface WorkerScratchParts {
  /** Where the folders of all workers of this data folder are. */
  root: string;
  jobs: Pick<JobQueue, 'workers'>;
  logger: Logger;
  intervalMs?: number;
}

/** Clears away what workers that were killed had no time to: copies of originals, and renditions in the making. */
export interface WorkerScratch {
  start(): void;
  stop(): Promise<void>;
}

/** Name of a worker's folder. */
export function scratchFolderOf(workerId: string): string {
  return `worker-${createHash('sha256').update(workerId).digest('hex').slice(0, 16)}`;
}

/**
 * {@link WorkerScratch}: a folder goes when its worker was not among the announced ones in two looks in a row. One that lives is, but for
 * the moment of its start; one that was taken for dead while it stood still has lost its leases, and begins anew.
 */
export function createWorkerScratch(parts: WorkerScratchParts): WorkerScratch {
  const { root, jobs, logger, intervalMs = INTERVAL_MS } = parts;
  let suspected: ReadonlySet<string> = new Set();
  let looking: Promise<void> = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;

  async function look(): Promise<void> {
    const folders = (await readdir(root)).filter((name) => FOLDER.test(name));
    const living = new Set((await jobs.workers()).map(({ id }) => scratchFolderOf(id)));
    const abandoned = folders.filter((name) => !living.has(name));
    const again = abandoned.filter((name) => suspected.has(name));
    suspected = new Set(abandoned);
    for (const name of again) {
      await rm(join(root, name), { recursive: true, force: true });
      logger.info({ folder: name }, 'what a worker that is gone had left was cleared away');
    }
  }

  function lookAndLog(): void {
    looking = looking
      .then(look)
      .catch((error: unknown) => logger.warn({ err: error }, 'what workers left could not be looked for'));
  }

  return {
    start() {
      if (timer) return;
      timer = setInterval(lookAndLog, intervalMs).unref();
      lookAndLog();
    },
    async stop() {
      clearInterval(timer);
      timer = undefined;
      await looking;
    },
  };
}
