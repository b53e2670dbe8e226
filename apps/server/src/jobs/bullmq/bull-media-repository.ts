import type { JobQueue } from '../../db/job-queue.ts';
import type { MediaRepository } from '../../db/media-repository.ts';
import type { EngineUpdates } from './engine-updates.ts';

/** Media whose jobs an engine hands out. The engine is informed of each job that came or went, after the commit. */
export function createBullMediaRepository(parts: {
  media: MediaRepository;
  rows: Pick<JobQueue, 'records'>;
  following: EngineUpdates;
}): MediaRepository {
  const { media, rows, following } = parts;
  return {
    ...media,

    async accept(record, options) {
      const accepted = await media.accept(record, options);
      if (accepted.created) await following.queued([accepted.media.id]);
      return accepted;
    },

    async retry(id) {
      const retried = await media.retry(id);
      if (retried) await following.queued([id]);
      return retried;
    },

    async rederive(objectKeys) {
      const ids = await media.rederive(objectKeys);
      await following.queued(ids);
      return ids;
    },

    async delete(id) {
      const jobs = await rows.records({ mediaIds: [id] });
      const deleted = await media.delete(id);
      if (deleted !== null) await following.over(jobs);
      return deleted;
    },

    async publish(lease, result, report) {
      const stood = await media.publish(lease, result, report);
      if (stood) await following.over([lease]);
      return stood;
    },

    async fail(lease, failure, report) {
      const stood = await media.fail(lease, failure, report);
      if (stood) await following.failed(lease, failure);
      return stood;
    },
  };
}
