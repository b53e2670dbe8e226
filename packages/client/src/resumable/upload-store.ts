import { ConfigurationError } from '../errors.ts';
import { createFileUploadStore } from './file-upload-store.ts';
import { nodeModule } from './node-module.ts';
import type { UploadStore } from './upload-options.ts';

/** The used part of the Storage interface (WHATWG HTML, 12.2). */
export interface WebStorage {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

const PREFIX = 'mds:upload:';

/** An {@link UploadStore} in localStorage, or in a similar storage. */
export function createWebUploadStore(storage: WebStorage): UploadStore {
  return {
    get: async (key) => storage.getItem(PREFIX + key),
    set: async (key, url) => storage.setItem(PREFIX + key, url),
    delete: async (key) => storage.removeItem(PREFIX + key),
  };
}

/**
 * The default store of this runtime.
 * @throws ConfigurationError if it has none, as a browser's worker or an edge runtime
 */
export function defaultUploadStore(): UploadStore {
  if (nodeModule('fs/promises')) return createFileUploadStore();
  const storage = (globalThis as { localStorage?: WebStorage }).localStorage;
  if (storage) return createWebUploadStore(storage);
  throw new ConfigurationError('resumeKey needs a resumeStore here: this runtime has neither localStorage nor files');
}
