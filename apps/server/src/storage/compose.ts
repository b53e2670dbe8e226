import type { Logger } from '../base/logger.ts';
import type { Deployment } from '../db/deployment.ts';
import type { DataDir } from './data-dir.ts';
import type { StorageSettings } from './settings.ts';
import { ALWAYS_BOUND, bindStorage, onceBound } from './storage-binding.ts';

/** The configured object store. Modules of a store that is not configured are not loaded. */
export async function openStorage(settings: StorageSettings, dataDir: DataDir, logger: Logger) {
  const { storageUrl: url, s3Endpoint: endpoint } = settings;
  if (url === null) {
    const { createLocalObjectStore } = await import('./local-object-store.ts');
    const store = createLocalObjectStore({ root: dataDir.objectsDir });
    return {
      /** A folder that is used by one database alone needs no binding. */
      bindTo: async (_deployment: Deployment) => ({ store, binding: ALWAYS_BOUND }),
      close: () => undefined,
    };
  }
  const { openS3ObjectStore } = await import('./s3-object-store.ts');
  const store = await openS3ObjectStore({ url, endpoint, scratchDir: dataDir.scratchDir, logger });
  return {
    /** Makes sure that the bucket belongs to the database. */
    async bindTo(deployment: Deployment) {
      const binding = await bindStorage({ deployment, store, shown: url, logger });
      return { store: onceBound(store, binding), binding };
    },
    close: () => store.close(),
  };
}
