import { byteSize, GIB, MIB, type SettingsOf, setting } from '../base/settings.ts';

export const ingestSettings = {
  /** The largest file that is accepted. */
  maxUploadBytes: setting('MDS_MAX_UPLOAD_BYTES', byteSize.default(10 * GIB)),
  /** Bound of all files that are being received; 0: only the free space bounds them. */
  maxStagingBytes: setting('MDS_MAX_STAGING_BYTES', byteSize.default(0)),
  /** Free space on the volume that incoming files must not use. */
  minFreeBytes: setting('MDS_MIN_FREE_BYTES', byteSize.default(64 * MIB)),
};
export type IngestSettings = SettingsOf<typeof ingestSettings>;
