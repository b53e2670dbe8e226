import type { Logger } from '../../base/logger.ts';
import type { JobQueue } from '../../db/job-queue.ts';
import type { MediaFailureRecord } from '../../db/media-repository.ts';
import { EngineAwayError, type HandedOut, type QueueEngine } from './queue-engine.ts';

/**
 * Informs the engine of committed changes of the rows. These calls never fail: the reconciler repairs missed changes.
 */
export interface EngineUpdates {
  /** These media have waiting jobs. */
  queued(mediaIds: string[]): Promise<void>;
  /** An active job waits again. */
  freed(job: HandedOut, delayMs: number): Promise<void>;
  /** These jobs are gone: done, or no longer wanted. */
  over(jobs: readonly { jobId: number; token: string | null }[]): Promise<void>;
  /** A job is gone, and its media object failed. */
  failed(job: HandedOut, failure: MediaFailureRecord): Promise<void>;
}

export function createEngineUpdates(parts: {
  rows: Pick<JobQueue, 'records'>;
  engine: QueueEngine;
  logger: Logger;
}): EngineUpdates {
  const { rows, engine, logger } = parts;
  const update = (send: () => Promise<void>): Promise<void> =>
    send().catch((error: unknown) => {
      // Not logged: an outage would give a line for each media object.
      if (error instanceof EngineAwayError) return;
      logger.warn({ err: error }, 'job engine could not be updated; the reconciler does it later');
    });
  /** Adds the jobs of free rows. The job of a held row is added when the row is freed. */
  const putFree = async (selection: { mediaIds: string[] } | { jobIds: number[] }) =>
    engine.put((await rows.records(selection)).filter(({ token }) => token === null));

  return {
    async queued(mediaIds) {
      if (mediaIds.length > 0) await update(() => putFree({ mediaIds }));
    },
    freed: ({ jobId, token }, delayMs) =>
      update(async () => {
        if (!(await engine.putBack({ jobId, token }, delayMs))) await putFree({ jobIds: [jobId] });
      }),
    over: (jobs) =>
      update(async () => {
        for (const { jobId, token } of jobs) await engine.remove({ jobId, token });
      }),
    failed: ({ jobId, token }, { code, message }) => update(() => engine.bury({ jobId, token }, `${code}: ${message}`)),
  };
}
