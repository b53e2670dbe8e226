import type { Logger } from '../base/logger.ts';
import type { Repositories } from '../db/repositories.ts';
import type { IngestSettings } from '../ingest/settings.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import type { UploadSettings } from './settings.ts';
import { createUploads, type Uploads, type UploadsParts } from './uploads.ts';

/** Resumable uploads. If nodes share the database and the store, any of them can resume any upload. */
export function composeUploads(
  parts: Pick<UploadsParts, 'ingest' | 'mayRemove' | 'writes' | 'space' | 'writing'> & {
    settings: UploadSettings & Pick<IngestSettings, 'maxUploadBytes'>;
    repositories: Pick<Repositories, 'uploads' | 'media' | 'shared'>;
    store: ObjectStore;
    isStoreRemote: boolean;
    dataDir: { uploadsDir: string; stagingDir: string };
    logger: Logger;
  },
): Uploads {
  const { settings, repositories, store, isStoreRemote, dataDir, ...rest } = parts;
  const { uploads, media, shared } = repositories;
  return createUploads({
    ...rest,
    uploads,
    media,
    shared,
    folder: dataDir.uploadsDir,
    segments: shared && isStoreRemote ? { store, stagingDir: dataDir.stagingDir } : null,
    maxBytes: settings.maxUploadBytes,
    maxOpen: settings.maxOpenUploads,
    expiryMs: settings.uploadExpiryS * 1000,
  });
}
