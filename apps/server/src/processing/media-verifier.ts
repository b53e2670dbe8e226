import type { MediaVerification, ObjectHealth, Repair } from '@mds/contract';
import { type Preset, presetRevision } from '@mds/transcode';
import type { KeyedLock } from '../base/keyed-lock.ts';
import type { Logger } from '../base/logger.ts';
import { originalKey } from '../base/object-key.ts';
import type { MediaRecord, MediaRepository, RenditionRecord } from '../db/media-repository.ts';
import { hashStream } from '../storage/hash-stream.ts';
import type { ObjectStore } from '../storage/object-store.ts';

export interface MediaVerifierParts {
  media: Pick<MediaRepository, 'renditions' | 'files' | 'rederive'>;
  store: Pick<ObjectStore, 'read' | 'delete'>;
  /** Today's presets: what they do not make cannot be made again. */
  presets: readonly Preset[];
  /** By SHA-256; shared with ingest and removal. */
  lock: KeyedLock;
  /** Called with the media whose renditions are to be made again: caches drop them, workers wake. */
  onRederive(mediaIds: string[]): void;
  logger: Logger;
}

/** Compares stored objects with their recorded hashes. */
export interface MediaVerifier {
  /**
   * Reads every stored byte of a media object. With `repair`, broken renditions are removed and made again from a sound original.
   * Those that no preset makes any more become failed.
   */
  verify(mediaObject: MediaRecord, options: { repair: boolean }): Promise<MediaVerification>;
}

/** {@link MediaVerifier} over the object store. */
export function createMediaVerifier(parts: MediaVerifierParts): MediaVerifier {
  const { media, store, lock, logger } = parts;
  const revisions = new Map(
    parts.presets.map((preset) => [`${preset.name}.${preset.extension}`, presetRevision(preset)]),
  );

  /** A superseded revision can only be made by the preset that made it. */
  const isMadeToday = ({ name, extension, revision, current }: RenditionRecord): boolean => {
    const today = revisions.get(`${name}.${extension}`);
    return today !== undefined && (current || today === revision);
  };

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
    verify: (mediaObject, { repair }) =>
      lock.run(mediaObject.sha256, async (_lost, confirm) => {
        const key = originalKey(mediaObject.sha256);
        const original = await healthOf(key, mediaObject.sha256);
        let checkedBytes = original.bytes;
        const renditions: MediaVerification['renditions'] = [];
        const broken: string[] = [];
        const files = await media.files(mediaObject.id);
        for (const row of await media.renditions(mediaObject.id)) {
          if (row.state !== 'ready') continue;
          const { name, extension, revision } = row;
          const own = files.filter((file) => file.name === name && file.revision === revision);
          let worst: ObjectHealth = 'sound';
          for (const { objectKey, sha256 } of own.length > 0 ? own : [row]) {
            const { health, bytes } = await healthOf(objectKey, sha256);
            checkedBytes += bytes;
            if (health === 'sound') continue;
            // A missing file outweighs a damaged one.
            worst = worst === 'missing' ? worst : health;
            if (objectKey !== null) broken.push(objectKey);
          }
          const remedy: Repair = worst === 'sound' ? 'none' : remedyOf(isMadeToday(row), original.health, repair);
          renditions.push({ name, extension, revision, health: worst, repair: remedy });
        }

        // An original cannot be derived; only an upload of the same bytes replaces it.
        if (repair && broken.length > 0 && original.health === 'sound') {
          await confirm();
          const ids = await media.rederive(broken);
          for (const brokenKey of broken) await store.delete(brokenKey);
          parts.onRederive(ids);
        }
        const remedies = renditions.map((rendition) => rendition.repair);
        if (original.health !== 'sound') remedies.push('needs_original');
        const result = WORST_FIRST.find((one) => remedies.includes(one)) ?? 'none';
        if (result !== 'none') {
          logger.warn(
            { mediaId: mediaObject.id, original: original.health, broken, repair: result },
            'stored bytes are damaged or missing',
          );
        }
        const { id, filename } = mediaObject;
        return { id, filename, checked_bytes: checkedBytes, original: original.health, renditions, repair: result };
      }),
  };
}

const WORST_FIRST: readonly Repair[] = ['needs_original', 'needs_preset', 'given_up', 'possible', 'queued'];

/** The repair of a rendition that is not sound. */
function remedyOf(isMadeToday: boolean, original: ObjectHealth, repair: boolean): Repair {
  if (original !== 'sound') return isMadeToday ? 'needs_original' : 'needs_preset';
  if (!isMadeToday) return repair ? 'given_up' : 'needs_preset';
  return repair ? 'queued' : 'possible';
}
