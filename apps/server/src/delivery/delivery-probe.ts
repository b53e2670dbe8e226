import { stat } from 'node:fs/promises';
import { AppError } from '../base/app-error.ts';
import { systemCode } from '../base/storage-error.ts';
import { resolverFailed } from './delivery-problems.ts';
import type { ObjectOrigin } from './object-origin.ts';
import { ownedObjectOf, type Representation } from './representation.ts';
import type { Resolver } from './resolver.ts';
import type { OwnedObject } from './verified-body.ts';

/** Finds out whether requests can be answered, by the object that was delivered last. */
export interface DeliveryProbe {
  /** Notes a delivery. */
  note(path: string, representation: Representation): void;
  /** @throws if paths cannot be resolved, or if the last object is missing although its path still stands for it */
  run(): Promise<void>;
}

/** Makes a {@link DeliveryProbe}. */
export function createDeliveryProbe({
  resolver,
  origin,
}: {
  resolver: Resolver;
  origin: Pick<ObjectOrigin, 'localFile'>;
}): DeliveryProbe {
  let latest: { path: string; owned: OwnedObject } | null = null;

  const isStillAt = async (path: string, { object }: OwnedObject): Promise<boolean> => {
    try {
      const { representations } = await resolver.resolve(path);
      return representations.some((one) => ownedObjectOf(one)?.object.key === object.key);
    } catch (error) {
      if (error instanceof AppError && error.status === 404) return false;
      return resolverFailed(error);
    }
  };

  return {
    note(path, representation) {
      const owned = ownedObjectOf(representation);
      if (owned) latest = { path, owned };
    },

    async run() {
      await resolver.probe();
      if (latest === null) return;
      const { path, owned } = latest;
      const local = await origin.localFile(owned.object);
      if (local === null) return;
      try {
        if (await isWhole(local.path, owned.object)) return;
      } finally {
        await local.release();
      }
      // The known resource may be a few milliseconds old.
      resolver.forget(path);
      if (await isStillAt(path, owned)) {
        throw new Error('An object that was delivered a while ago is missing from the object store.');
      }
      // It has been deleted since.
      latest = null;
    },
  };
}

async function isWhole(path: string, { bytes }: { bytes: number }): Promise<boolean> {
  try {
    return (await stat(path)).size === bytes;
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return false;
    throw error;
  }
}
