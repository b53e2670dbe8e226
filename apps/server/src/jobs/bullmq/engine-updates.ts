import type { Logger } from '../../base/logger.ts';
import type { JobQueue } from '../../db/job-queue.ts';
import type { MediaFailureRecord } from '../../db/media-repository.ts';
import { EngineAwayError, type HandedOut, type QueueEngine } from './queue-engine.ts';

/**
 * Has the engine follow what was committed of the rows. None of it fails: what the engine could not be told, the reconciler tells it.
 */
export interface EngineUpdates {
  /** These media have jobs that wait. */
  queued(mediaIds: string[]): Promise<void>;
  /** A job that was out waits again. */
  freed(job: HandedOut, delayMs: number): Promise<void>;
  /** These jobs are gone, done or not wanted any more. */
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
  const follow = (tell: () => Promise<void>): Promise<void> =>
    tell().catch((error: unknown) => {
      // Of an outage there would be a line for each media object.
      if (error instanceof EngineAwayError) return;
      logger.warn({ err: error }, 'the job engine could not be told; it will be when rows and engine are compared');
    });
  /** Rows that nobody holds; what is held is put in by whoever frees it. */
  const putFree = async (selection: { mediaIds: string[] } | { jobIds: number[] }) =>
    engine.put((await rows.records(selection)).filter(({ token }) => token === null));

  return {
    async queued(mediaIds) {
      if (mediaIds.length > 0) await follow(() => putFree({ mediaIds }));
    },
    freed: ({ jobId, token }, delayMs) =>
      follow(async () => {
        if (!(await engine.putBack({ jobId, token }, delayMs))) await putFree({ jobIds: [jobId] });
      }),
    over: (jobs) =>
      follow(async () => {
        for (const { jobId, token } of jobs) await engine.remove({ jobId, token });
      }),
    failed: ({ jobId, token }, { code, message }) => follow(() => engine.bury({ jobId, token }, `${code}: ${message}`)),
  };
}
