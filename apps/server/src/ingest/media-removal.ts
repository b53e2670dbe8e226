import type { ConfirmLock, KeyedLock } from '../base/keyed-lock.ts';
import type { Logger } from '../base/logger.ts';
import type { MediaRepository } from '../db/media-repository.ts';
import type { ObjectStore } from '../storage/object-store.ts';

export interface MediaRemovalParts {
  media: Pick<MediaRepository, 'find' | 'delete' | 'isReferenced'>;
  store: Pick<ObjectStore, 'delete'>;
  /** By SHA-256; shared with ingest, so that arriving bytes are not removed under their new media object. */
  lock: KeyedLock;
  /** Called after the row is deleted and before the objects are: caches drop the media object. */
  onRemoved(mediaId: string): void;
  logger: Logger;
}

/** Removes media for good. */
export interface MediaRemoval {
  /** Removes a media object, and every object that no other media object refers to. False if it does not exist. */
  remove(id: string): Promise<boolean>;
}

/**
 * {@link MediaRemoval}: the row first, then caches, then objects, so that nothing is visible without its bytes. Objects that stay because
 * the process died, or that a worker puts afterwards, are removed by {@link createRemovalSweep}.
 */
export function createMediaRemoval({ media, store, lock, onRemoved, logger }: MediaRemovalParts): MediaRemoval {
  const removeObject = async (key: string, confirm: ConfirmLock) => {
    try {
      // Checked again for each object: a new media object of the same bytes may need it.
      if (await media.isReferenced(key)) return;
      await confirm();
      await store.delete(key);
    } catch (error) {
      // The media object is deleted all the same. The sweep removes the object later.
      logger.warn({ err: error, key }, 'object of a removed media object is left in the store for now');
    }
  };

  return {
    async remove(id) {
      const found = await media.find(id);
      if (found === null) return false;
      return lock.run(found.sha256, async (lost, confirm) => {
        const removed = await media.delete(id);
        if (removed === null) return false;
        onRemoved(id);
        for (const key of removed.orphans) {
          if (lost.aborted) break;
          await removeObject(key, confirm);
        }
        return true;
      });
    },
  };
}
