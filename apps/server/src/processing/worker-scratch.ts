import { createHash } from 'node:crypto';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from '../base/logger.ts';
import type { JobQueue } from '../db/job-queue.ts';

const FOLDER = /^worker-[0-9a-f]{16}$/;
/** Longer than a worker takes between making its folder and announcing itself. */
const INTERVAL_MS = 20_000;

export interface WorkerScratchParts {
  /** Parent of the folders of all workers of this data folder. */
  root: string;
  jobs: Pick<JobQueue, 'workers'>;
  logger: Logger;
  intervalMs?: number;
}

/** Removes what killed workers have left: copies of originals, and unfinished renditions. */
export interface WorkerScratch {
  start(): void;
  stop(): Promise<void>;
}

/** Name of a worker's folder. */
export function scratchFolderOf(workerId: string): string {
  return `worker-${createHash('sha256').update(workerId).digest('hex').slice(0, 16)}`;
}

/**
 * {@link WorkerScratch}: a folder is removed if its worker was not announced in two looks in a row. A living worker is announced, except at
 * the moment of its start. A stopped worker that was taken for dead has lost its leases, and begins anew.
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
      logger.info({ folder: name }, 'scratch folder of a worker that is gone removed');
    }
  }

  function lookAndLog(): void {
    looking = looking
      .then(look)
      .catch((error: unknown) => logger.warn({ err: error }, 'scratch folders could not be looked for'));
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
