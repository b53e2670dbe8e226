import { AppError } from '../base/app-error.ts';
import type { Logger } from '../base/logger.ts';
import { S3Failure } from '../storage/s3-failure.ts';
import { openS3ObjectStore } from '../storage/s3-object-store.ts';
import { markDestination } from '../storage/storage-binding.ts';
import { openDestinationDatabase } from './destination.ts';
import type { Destination } from './migration-progress.ts';
import { redactedUrl } from './redacted-url.ts';

/**
 * Opens the database and the storage that a deployment is to be moved to, and checks that both can be written. The storage's credentials
 * are those of this process. The storage is marked as the deployment's.
 * @throws DatabaseRefusedError, ObjectStorageError, RangeError, AppError if one of them cannot be used
 */
export async function openDestination(where: {
  databaseUrl: string;
  storageUrl: string;
  s3Endpoint: string | null;
  /** Id of the deployment that is moved. */
  deploymentId: string;
  scratchDir: string;
  logger: Logger;
}): Promise<Destination> {
  const { storageUrl: url, s3Endpoint: endpoint, deploymentId, scratchDir, logger } = where;
  const database = await openDestinationDatabase(where.databaseUrl);
  try {
    const store = await openS3ObjectStore({ url, endpoint, scratchDir, logger });
    try {
      await store.probe();
      await markDestination({ deploymentId, store, shown: url });
    } catch (error) {
      store.close();
      throw error instanceof AppError ? notAnswering(error, { url, endpoint }) : error;
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

/** Clients of a service learn only that its storage does not answer. The operator of a move needs to know which storage that is. */
export function notAnswering(error: AppError, { url, endpoint }: { url: string; endpoint: string | null }): AppError {
  const reason = error.cause instanceof S3Failure ? ` (${error.cause.code})` : '';
  const where = endpoint === null ? 'Amazon, as no s3_endpoint is given,' : redactedUrl(endpoint);
  const advice =
    endpoint === null
      ? 'A server that is not of Amazon is named by s3_endpoint; if it is of Amazon, see that this service reaches it and that AWS_REGION is right. Then begin again.'
      : 'See that it runs and that its address is right, then begin again.';
  const detail = `The destination ${url} at ${where} does not answer as it should${reason}. ${advice}`;
  return new AppError(error.code, detail, { cause: error, headers: error.headers });
}
