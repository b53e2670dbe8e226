import { readFile, rm, writeFile } from 'node:fs/promises';
import { systemCode } from '../base/storage-error.ts';
import type { FetchProgress } from './fetch-heartbeat.ts';

/**
 * The last progress that an attempt on this machine wrote to the row of a fetch, if several machines fetch. If another machine has
 * worked on the fetch since, the row has other progress, and the part here may be of an older file. A part is resumed only if the row
 * still matches.
 */
export interface PartProgress {
  /** Whether the part matches the row. Forgets what was saved: asked again, it does not match. */
  takeIfMatching(fetch: FetchProgress): Promise<boolean>;
  save(fetch: FetchProgress): Promise<void>;
  remove(): Promise<void>;
}

/** {@link PartProgress} in a file beside the part. */
export function openPartProgress(partPath: string): PartProgress {
  const path = `${partPath}.standing`;
  const remove = () => rm(path, { force: true });
  return {
    async takeIfMatching(fetch) {
      const saved = await readFile(path, 'utf8').catch((error: unknown) => {
        if (systemCode(error) === 'ENOENT') return null;
        throw error;
      });
      await remove();
      return saved === serialize(fetch);
    },
    save: (fetch) => writeFile(path, serialize(fetch), { mode: 0o600 }),
    remove,
  };
}

function serialize({ receivedBytes, totalBytes, validator, spentMs }: FetchProgress): string {
  return JSON.stringify([receivedBytes, totalBytes, validator, spentMs]);
}
