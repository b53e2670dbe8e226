import { ConfigurationError } from '../errors.ts';
import { createFileUploadStore } from './file-upload-store.ts';
import { nodeModule } from './node-module.ts';

/** Where the addresses of unfinished uploads are kept, so that a later call can go on. An address is no secret: the token is. */
export interface UploadStore {
  /** The address that is kept under a key; null where there is none. */
  get(key: string): Promise<string | null>;
  /** Keeps an address. */
  set(key: string, url: string): Promise<void>;
  /** Forgets an address; one that is not there, too. */
  delete(key: string): Promise<void>;
}

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
