import { readFile, rm, writeFile } from 'node:fs/promises';
import { systemCode } from '../base/storage-error.ts';
import type { FetchProgress } from './fetch-heartbeat.ts';

/**
 * Whose bytes a part on this machine is, where several machines fetch: what the row said when the last attempt here told it how far it is, or
 * gave the fetch back. Another attempt elsewhere tells how far it is and how long it took, and the row says something else from then on; the
 * part here may be one of an older file, then. An attempt that a crash ended has told last what this says, or the part is not gone on with.
 */
export interface PartProgress {
  /** Whether the part is what the row tells of. It holds for one attempt: asked again, it is not. */
  take(fetch: FetchProgress): Promise<boolean>;
  keep(fetch: FetchProgress): Promise<void>;
  drop(): Promise<void>;
}

/** {@link PartProgress} in a file beside the part. */
export function openPartProgress(partPath: string): PartProgress {
  const path = `${partPath}.standing`;
  const drop = () => rm(path, { force: true });
  return {
    async take(fetch) {
      const kept = await readFile(path, 'utf8').catch((error: unknown) => {
        if (systemCode(error) === 'ENOENT') return null;
        throw error;
      });
      await drop();
      return kept === standingOf(fetch);
    },
    keep: (fetch) => writeFile(path, standingOf(fetch), { mode: 0o600 }),
    drop,
  };
}

function standingOf({ receivedBytes, totalBytes, validator, spentMs }: FetchProgress): string {
  return JSON.stringify([receivedBytes, totalBytes, validator, spentMs]);
}
