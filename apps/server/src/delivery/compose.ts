import type { Logger } from '../base/logger.ts';
import { createTeardown } from '../base/teardown.ts';
import type { Repositories } from '../db/repositories.ts';
import type { DataDir } from '../storage/data-dir.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import { createLocalObjectOrigin } from './cache/origin/local-object-origin.ts';
import { createStoredObjectOrigin } from './cache/origin/stored-object-origin.ts';
import { createDatabaseResolver } from './database-resolver.ts';
import { createDelivery } from './delivery.ts';
import { createRequestLog } from './request-log.ts';
import type { DeliverySettings } from './settings.ts';

/** Asset records that are kept for each region. */
export const KEPT_ASSETS = 10_000;

/** Delivery of the media in the database of this service. */
export function composeDelivery(parts: {
  settings: DeliverySettings;
  repositories: Pick<Repositories, 'media' | 'pieceDigests' | 'assets'>;
  store: Pick<ObjectStore, 'read'>;
  /** If the store is on other machines, its objects are cached on this disk. */
  isStoreRemote: boolean;
  dataDir: Pick<DataDir, 'objectsDir' | 'cacheDir'>;
  /** Code of the region. */
  region: string;
  publicUrl(): string;
  logger: Logger;
}) {
  const { settings, repositories, store, isStoreRemote, dataDir, region, logger } = parts;
  const { media, pieceDigests, assets } = repositories;
  const teardown = createTeardown('parts of delivery');
  const requestLog = createRequestLog({ assets, keep: KEPT_ASSETS, logger });
  requestLog.start();
  teardown.add(() => requestLog.stop());
  /** A resolver whose manifests name addresses under `publicUrl`. */
  const resolverFor = (publicUrl: () => string) => createDatabaseResolver({ media, pieceDigests, region, publicUrl });
  const resolver = resolverFor(parts.publicUrl);
  const delivery = createDelivery({
    resolver,
    origin: isStoreRemote ? createStoredObjectOrigin({ store }) : createLocalObjectOrigin({ root: dataDir.objectsDir }),
    diskCache: isStoreRemote ? { dir: dataDir.cacheDir, maxBytes: settings.cacheBytes } : null,
    region,
    memoryCacheBytes: settings.memoryCacheBytes,
    keepDigests: pieceDigests.put,
    requestLog,
    logger,
  });
  teardown.add(() => delivery.stop());
  return { delivery, resolver, resolverFor, stop: teardown.run };
}
