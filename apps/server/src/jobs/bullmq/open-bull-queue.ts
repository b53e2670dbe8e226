import type { Repositories } from '../../db/repositories.ts';
import { createBullJobQueue } from './bull-job-queue.ts';
import { createBullMediaRepository } from './bull-media-repository.ts';
import { createFollowing } from './following.ts';
import { type BullEngineOptions, openBullEngine } from './open-bull-engine.ts';
import { createReconciler, type ReconcilerParts } from './reconciler.ts';

export interface BullQueueOptions extends BullEngineOptions {
  /** Over the database of `url`; closed with what is returned. */
  repositories: Repositories;
  timing?: Pick<ReconcilerParts, 'intervalMs' | 'suspectMs'>;
}

/**
 * The same repositories, their jobs handed out by BullMQ, whose tables are in the schema `bullmq` of the same database and are brought up
 * to date here.
 * @throws ConfigError where BullMQ is not installed
 */
export async function openBullQueue(options: BullQueueOptions): Promise<Repositories> {
  const { repositories, logger, timing = {} } = options;
  const { jobs: rows, media } = repositories;
  const engine = await openBullEngine(options);
  const following = createFollowing({ rows, engine, logger });
  const reconciler = createReconciler({ rows, engine, logger, ...timing });
  const { reconcile } = reconciler;
  reconciler.start();
  return {
    ...repositories,
    jobs: createBullJobQueue({ rows, media, engine, following, reconcile }),
    media: createBullMediaRepository({ media, rows, following }),
    async close() {
      await reconciler.stop();
      await engine.close();
      await repositories.close();
    },
  };
}
