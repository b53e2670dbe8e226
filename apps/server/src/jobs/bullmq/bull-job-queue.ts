import { ulid } from 'ulid';
import type { JobQueue } from '../../db/job-queue.ts';
import type { MediaRepository } from '../../db/media-repository.ts';
import type { EngineUpdates } from './engine-updates.ts';
import { EngineAwayError, type QueueEngine } from './queue-engine.ts';

export interface BullJobQueueParts {
  /** The rows of jobs and their leases: the truth. */
  rows: JobQueue;
  media: Pick<MediaRepository, 'find'>;
  engine: QueueEngine;
  following: EngineUpdates;
  /** Compares rows and engine now. */
  reconcile: () => Promise<unknown>;
}

/**
 * {@link JobQueue} whose jobs an engine hands out. A worker works under the lease of the row, which also fences its writes. The engine only
 * chooses the next job.
 */
export function createBullJobQueue(parts: BullJobQueueParts): JobQueue {
  const { rows, media, engine, following, reconcile } = parts;

  return {
    ...rows,

    async claim(worker) {
      for (;;) {
        const token = ulid();
        const jobId = await engine.take({ worker, token }).catch(nothingWhileAway);
        if (jobId === null) return null;
        const lease = await rows.claimJob(jobId, { worker, token }).catch(async (error: unknown) => {
          await following.freed({ jobId, token }, 0);
          throw error;
        });
        if (lease !== null) return lease;
        // Its media object was deleted, or its row has a lease that only the lease monitor ends. The node that frees
        // the row adds the job again.
        await engine.remove({ jobId, token });
      }
    },

    async release(lease, as, report) {
      await rows.release(lease, as, report);
      await following.freed(lease, as.kind === 'retry' ? as.delayMs : 0);
    },

    async reclaim(token, options) {
      const mediaId = (await rows.held()).find((lease) => lease.token === token)?.mediaId;
      const [row] = mediaId === undefined ? [] : await rows.records({ mediaIds: [mediaId] });
      const stood = await rows.reclaim(token, options);
      if (!stood || row === undefined) return stood;
      const job = { jobId: row.jobId, token };
      const failed = (await media.find(row.mediaId))?.failure ?? null;
      const [left] = await rows.records({ jobIds: [row.jobId] });
      if (left !== undefined) await following.freed(job, 0);
      else if (failed !== null) await following.failed(job, failed);
      else await following.over([job]);
      return stood;
    },

    async adoptStranded() {
      const adopted = await rows.adoptStranded();
      if (adopted > 0) await reconcile();
      return adopted;
    },
  };
}

/** An engine that is unavailable has no job to hand out, and is asked again like an empty one. */
function nothingWhileAway(error: unknown): null {
  if (error instanceof EngineAwayError) return null;
  throw error;
}
