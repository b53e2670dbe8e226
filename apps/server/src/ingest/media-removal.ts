import type { ConfirmLock, KeyedLock } from '../base/keyed-lock.ts';
import type { Logger } from '../base/logger.ts';
import type { MediaRepository } from '../db/media-repository.ts';
import type { ObjectStore } from '../storage/object-store.ts';

export interface MediaRemovalParts {
  media: Pick<MediaRepository, 'find' | 'delete' | 'isReferenced'>;
  store: Pick<ObjectStore, 'delete'>;
  /** The one that the ingest holds, by SHA-256: so that bytes on their way in are not removed under their new media object. */
  lock: KeyedLock;
  /** Called when the row is gone and before the objects go: caches drop what they hold of the media object. */
  onRemoved(mediaId: string): void;
  logger: Logger;
}

/** Removes media for good. */
export interface MediaRemoval {
  /** Removes a media object, and every object that no other media object refers to. False where there is no such media object. */
  remove(id: string): Promise<boolean>;
}

/**
 * {@link MediaRemoval}: the row first, then caches, then objects, so that nothing is visible without its bytes. What is not removed here,
 * as the process dies first or a worker puts it afterwards, {@link createRemovalSweep} removes.
 */
export function createMediaRemoval({ media, store, lock, onRemoved, logger }: MediaRemovalParts): MediaRemoval {
  const removeObject = async (key: string, confirm: ConfirmLock) => {
    try {
      // Asked again for each: a media object of the same bytes may have come to need the object meanwhile.
      if (await media.isReferenced(key)) return;
      await confirm();
      await store.delete(key);
    } catch (error) {
      // The media object is gone all the same; the sweep comes by later.
      logger.warn({ err: error, key }, 'an object of a removed media object is left in the store for now');
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
