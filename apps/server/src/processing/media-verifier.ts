import type { MediaVerification, ObjectHealth } from '@mds/contract';
import type { MediaRecord, MediaRepository } from '../db/media-repository.ts';
import type { KeyedLock } from '../ingest/keyed-lock.ts';
import type { Logger } from '../logger.ts';
import { hashStream } from '../storage/hash-stream.ts';
import { type ObjectStore, originalKey } from '../storage/object-store.ts';

export interface MediaVerifierParts {
  media: Pick<MediaRepository, 'renditions' | 'files' | 'rederive'>;
  store: Pick<ObjectStore, 'read' | 'delete'>;
  /** The one that ingest and removal hold, by SHA-256. */
  lock: KeyedLock;
  /** Called with media whose renditions are to be made again: caches let go of them, workers wake. */
  onRederive(mediaIds: string[]): void;
  logger: Logger;
}

/** Compares what is stored with what was recorded. */
export interface MediaVerifier {
  /**
   * Reads every stored byte of a medium. With `repair`: broken renditions are removed and made again from a sound
   * original.
   */
  verify(medium: MediaRecord, options: { repair: boolean }): Promise<MediaVerification>;
}

/** {@link MediaVerifier} over the object store. */
export function createMediaVerifier(parts: MediaVerifierParts): MediaVerifier {
  const { media, store, lock, logger } = parts;

  async function healthOf(key: string | null, sha256: string | null): Promise<{ health: ObjectHealth; bytes: number }> {
    const object = key === null ? null : await store.read(key);
    if (object === null) return { health: 'missing', bytes: 0 };
    let bytes = 0;
    const hash = await hashStream(object.stream, (count) => {
      bytes += count;
    });
    return { health: hash === sha256 ? 'sound' : 'damaged', bytes };
  }

  return {
    verify: (medium, { repair }) =>
      lock.run(medium.sha256, async () => {
        const key = originalKey(medium.sha256);
        const original = await healthOf(key, medium.sha256);
        let checkedBytes = original.bytes;
        const renditions: MediaVerification['renditions'] = [];
        const broken: string[] = [];
        const files = await media.files(medium.id);
        for (const row of await media.renditions(medium.id)) {
          if (row.state !== 'ready') continue;
          const { name, extension, revision } = row;
          const own = files.filter((file) => file.name === name && file.revision === revision);
          let worst: ObjectHealth = 'sound';
          for (const { objectKey, sha256 } of own.length > 0 ? own : [row]) {
            const { health, bytes } = await healthOf(objectKey, sha256);
            checkedBytes += bytes;
            if (health === 'sound') continue;
            // Of several files, one that is gone says more than one that is damaged.
            worst = worst === 'missing' ? worst : health;
            if (objectKey !== null) broken.push(objectKey);
          }
          renditions.push({ name, extension, revision, health: worst });
        }

        const outcome = async (): Promise<MediaVerification['repair']> => {
          // Nothing derives an original; an upload of the same bytes takes its place.
          if (original.health !== 'sound') return 'needs_original';
          if (broken.length === 0) return 'none';
          if (!repair) return 'possible';
          const ids = await media.rederive(broken);
          for (const brokenKey of broken) await store.delete(brokenKey);
          parts.onRederive(ids);
          return 'queued';
        };
        const result = await outcome();
        if (result !== 'none') {
          logger.warn(
            { mediaId: medium.id, original: original.health, broken, repair: result },
            'stored bytes are not sound',
          );
        }
        const { id, filename } = medium;
        return { id, filename, checked_bytes: checkedBytes, original: original.health, renditions, repair: result };
      }),
  };
}
