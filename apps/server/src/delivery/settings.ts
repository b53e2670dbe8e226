import { byteSize, GIB, MIB, type SettingsOf, setting } from '../base/settings.ts';

export const deliverySettings = {
  /** Disk for delivered objects, if they are stored on another machine. */
  cacheBytes: setting('MDS_CACHE_BYTES', byteSize.default(10 * GIB)),
  /** Memory for delivered objects. */
  memoryCacheBytes: setting('MDS_MEMORY_CACHE_BYTES', byteSize.default(256 * MIB)),
};
export type DeliverySettings = SettingsOf<typeof deliverySettings>;
