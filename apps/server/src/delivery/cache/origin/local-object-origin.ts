import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { systemCode } from '../../../base/storage-error.ts';
import { objectPath } from '../../../storage/local-object-store.ts';
import type { ObjectOrigin } from '../../object-origin.ts';

/** {@link ObjectOrigin} over the folder of a local object store: its files are read where they lie. @param root as the store's */
export function createLocalObjectOrigin({ root }: { root: string }): ObjectOrigin {
  return {
    // Whether the file is there, whoever opens it finds out: asking before would not make it surer.
    async localFile({ key }) {
      return { path: objectPath(root, key), release: async () => undefined };
    },

    async read({ key }, { start, end }, signal) {
      const handle = await open(objectPath(root, key)).catch((error: unknown) => {
        if (systemCode(error) === 'ENOENT') return null;
        throw error;
      });
      return handle && createReadStream('', { fd: handle, start, end, signal });
    },
  };
}
