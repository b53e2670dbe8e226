import type { Logger } from './base/logger.ts';
import { ConfigError } from './base/settings.ts';
import { DatabaseRefusedError, DatabaseUnreachableError } from './db/database-refused-error.ts';
import { ListenError } from './listen.ts';
import { DataDirError } from './storage/data-dir.ts';
import { ObjectStorageError, StorageAheadError } from './storage/s3-failure.ts';

/** A stop that takes longer is cut short; orchestrators kill after about this time, too. */
const STOP_DEADLINE_MS = 25_000;

/** The service or worker that runs in this process until it ends. */
interface Running {
  storageKnown: Promise<void>;
  stop(options?: StopOptions): Promise<void>;
}
interface StopOptions {
  graceMs?: number;
  crashed?: boolean;
}

/** Stops what runs, and then ends the process. Further calls do nothing. */
export type Stop = (reason: string, exitCode: number, options?: StopOptions) => void;

/** Ends the process in good order after an uncaught error, and if the storage belongs to another deployment. @returns the way to end it */
export function stopWithProcess(running: Running, logger: Logger): Stop {
  let stopping = false;
  const stop: Stop = (reason, exitCode, options = {}) => {
    if (stopping) return;
    stopping = true;
    const deadline = setTimeout(() => {
      logger.error('the stop took too long and was cut short');
      process.exit(1);
    }, STOP_DEADLINE_MS);
    deadline.unref();
    logger.info({ reason }, 'stopping');
    running.stop(options).then(
      () => {
        logger.info('stopped');
        process.exit(exitCode);
      },
      (error: unknown) => {
        logger.error({ err: error }, 'the stop failed');
        process.exit(1);
      },
    );
  };
  running.storageKnown.catch((error: Error) => {
    logger.fatal({ err: error }, error.message);
    stop('the storage cannot be used', exitCodeOf(error));
  });
  // After an uncaught error the state of the process is unknown.
  process.on('uncaughtException', (error) => {
    logger.fatal({ err: error }, 'uncaught error');
    stop('uncaught error', 1, { crashed: true });
  });
  return stop;
}

/** Ends a process that could not start: with a message if the operator can act on the error, with a stack if not. */
export function reportFailedStart(error: unknown): never {
  const isExpected = [ConfigError, ListenError, DataDirError, DatabaseRefusedError, ObjectStorageError].some(
    (kind) => error instanceof kind,
  );
  if (isExpected) {
    process.stderr.write(`${(error as Error).message}\n`);
    process.exit(exitCodeOf(error));
  }
  process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
  process.exit(1);
}

/** For expected errors: 1 if another start may succeed. */
function exitCodeOf(error: unknown): number {
  return error instanceof DatabaseUnreachableError || error instanceof StorageAheadError ? 1 : 2;
}
