import { ConfigurationError } from '../errors.ts';
import { createFileUploadStore } from './file-upload-store.ts';
import { nodeModule } from './node-module.ts';
import type { UploadStore } from './upload-options.ts';

/** The part of the Storage interface (WHATWG HTML, 12.2) that is used. */
export interface WebStorage {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

const PREFIX = 'mds:upload:';

/** An {@link UploadStore} in localStorage, or something like it. */
export function createWebUploadStore(storage: WebStorage): UploadStore {
  return {
    get: async (key) => storage.getItem(PREFIX + key),
    set: async (key, url) => storage.setItem(PREFIX + key, url),
    delete: async (key) => storage.removeItem(PREFIX + key),
  };
}

/**
 * The store of this runtime.
 * @throws ConfigurationError where it has none: in a worker of a browser, on an edge
 */
export function defaultUploadStore(): UploadStore {
  if (nodeModule('fs/promises')) return createFileUploadStore();
  const storage = (globalThis as { localStorage?: WebStorage }).localStorage;
  if (storage) return createWebUploadStore(storage);
  throw new ConfigurationError('resumeKey needs a resumeStore here: this runtime has neither localStorage nor files');
}
