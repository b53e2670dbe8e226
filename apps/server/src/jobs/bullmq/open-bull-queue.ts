import type { Repositories } from '../../db/repositories.ts';
import { createBullJobQueue } from './bull-job-queue.ts';
import { createBullMediaRepository } from './bull-media-repository.ts';
import { createEngineUpdates } from './engine-updates.ts';
import { type BullEngineOptions, openBullEngine, type RedisOptions } from './open-bull-engine.ts';
import { createReconciler, type ReconcilerParts } from './reconciler.ts';

export interface BullQueueOptions extends Omit<BullEngineOptions, 'redis'> {
  /** On the database of `url`; closed with the result. */
  repositories: Repositories;
  /** The Redis of BullMQ's copies of the jobs; undefined: they are in the same database. */
  redis?: Omit<RedisOptions, 'deploymentId'> | undefined;
  timing?: Pick<ReconcilerParts, 'intervalMs' | 'suspectMs'>;
}

/**
 * The same repositories with jobs that BullMQ hands out. Its tables are in the schema `bullmq` of the same database and are migrated here,
 * or its keys are in a Redis.
 * @throws ConfigError as `openBullEngine` does
 */
export async function openBullQueue(options: BullQueueOptions): Promise<Repositories> {
  const { repositories, redis, logger, timing = {}, ...rest } = options;
  const { jobs: rows, media, deployment } = repositories;
  const engine = await openBullEngine({
    ...rest,
    logger,
    redis: redis && { ...redis, deploymentId: deployment.id },
  });
  const following = createEngineUpdates({ rows, engine, logger });
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
