import type { Logger } from '../base/logger.ts';
import { createTeardown } from '../base/teardown.ts';
import type { Repositories } from '../db/repositories.ts';
import { createDatabaseResolver } from './database-resolver.ts';
import { createDelivery } from './delivery.ts';
import type { ObjectOrigin } from './object-origin.ts';
import { createRequestLog } from './request-log.ts';
import type { DeliverySettings } from './settings.ts';

/** Asset records that are kept for each region. */
export const KEPT_ASSETS = 10_000;

/** Delivery of the media in the database of this service. */
export function composeDelivery(parts: {
  settings: DeliverySettings;
  repositories: Pick<Repositories, 'media' | 'pieceDigests' | 'assets'>;
  origin: ObjectOrigin;
  /** Folder of the disk cache; null: objects are on this disk already. */
  cacheDir: string | null;
  /** Code of the region. */
  region: string;
  publicUrl(): string;
  logger: Logger;
}) {
  const { settings, repositories, origin, cacheDir, region, logger } = parts;
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
    origin,
    diskCache: cacheDir === null ? null : { dir: cacheDir, maxBytes: settings.cacheBytes },
    region,
    memoryCacheBytes: settings.memoryCacheBytes,
    keepDigests: pieceDigests.put,
    requestLog,
    logger,
  });
  teardown.add(() => delivery.stop());
  return { delivery, resolver, resolverFor, stop: teardown.run };
}
