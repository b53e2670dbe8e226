import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { systemCode } from '../../../base/storage-error.ts';
import { objectPath } from '../../../storage/local-object-store.ts';
import type { ObjectOrigin } from '../../object-origin.ts';

/** Makes an {@link ObjectOrigin} over the folder of a local object store, whose files are read in place. @param root of the store */
export function createLocalObjectOrigin({ root }: { root: string }): ObjectOrigin {
  return {
    // Opening the file shows whether it is there. A check beforehand would prove nothing.
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
