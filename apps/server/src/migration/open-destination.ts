import type { Logger } from '../logger.ts';
import { openS3ObjectStore } from '../storage/s3-object-store.ts';
import { openDestinationDatabase } from './destination.ts';
import type { Destination } from './standing.ts';

/**
 * Opens the database and the storage that a deployment is to be moved to, and sees that both can be written. Credentials of the storage
 * are those of this process.
 * @throws DatabaseRefusedError, ObjectStorageError, RangeError, AppError: what is wrong with them
 */
export async function openDestination(where: {
  databaseUrl: string;
  storageUrl: string;
  s3Endpoint: string | null;
  scratchDir: string;
  logger: Logger;
}): Promise<Destination> {
  const { storageUrl: url, s3Endpoint: endpoint, scratchDir, logger } = where;
  const database = await openDestinationDatabase(where.databaseUrl);
  try {
    const store = await openS3ObjectStore({ url, endpoint, scratchDir, logger });
    try {
      await store.probe();
    } catch (error) {
      store.close();
      throw error;
    }
    return {
      ...{ database, store, storageShown: url },
      async close() {
        store.close();
        await database.close();
      },
    };
  } catch (error) {
    await database.close();
    throw error;
  }
}
