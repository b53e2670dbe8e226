import type { Engine } from '@mds/transcode';
import type { KeyedLock } from '../base/keyed-lock.ts';
import type { Logger } from '../base/logger.ts';
import type { MediaRecord } from '../db/media-repository.ts';
import type { Repositories } from '../db/repositories.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import { createIngest } from './ingest.ts';
import { createMediaRemoval } from './media-removal.ts';
import { createPieceWriting } from './piece-writing.ts';
import { createRemovalSweep } from './removal-sweep.ts';
import type { IngestSettings } from './settings.ts';
import { createStagingSpace } from './staging-space.ts';

/** Builds the parts that ingest and remove media. */
export function composeIngest(parts: {
  settings: IngestSettings;
  repositories: Pick<Repositories, 'media' | 'contentRemovals'>;
  store: ObjectStore;
  engine: Engine;
  /** Keys are SHA-256 hashes of originals. */
  lock: KeyedLock;
  dataDir: { root: string; stagingDir: string };
  logger: Logger;
  onAccepted(media: MediaRecord): void;
  onRemoved(mediaId: string): void;
  /** Whether the deployment is being moved. */
  isMoving(): boolean;
}) {
  const { settings, repositories, store, engine, lock, dataDir, logger, onAccepted, onRemoved, isMoving } = parts;
  const { media, contentRemovals } = repositories;
  const { maxStagingBytes: maxBytes, minFreeBytes, maxUploadBytes } = settings;
  const space = createStagingSpace({ folder: dataDir.root, maxBytes, minFreeBytes });
  const writing = createPieceWriting();
  const { stagingDir } = dataDir;
  const files = { store, lock, media, logger };
  const removalSweep = createRemovalSweep({ ...files, contentRemovals, isMoving });
  return {
    ingest: createIngest({ ...files, engine, stagingDir, space, writing, maxUploadBytes, onAccepted }),
    space,
    writing,
    removal: createMediaRemoval({ ...files, onRemoved }),
    removalSweep,
    stop: () => removalSweep.stop(),
  };
}
