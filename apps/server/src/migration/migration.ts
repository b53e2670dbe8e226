import { AppError } from '../base/app-error.ts';
import type { Logger } from '../base/logger.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import type { Destination, MigrationProgress, MigrationState } from './migration-progress.ts';
import { MoveRefusedError, moveDeployment } from './move-deployment.ts';
import type { SourceDatabase } from './source-database.ts';

export interface MigrationParts {
  store: ObjectStore;
  openSource(): SourceDatabase;
  scratchDir: string;
  /** Ends everything that writes media. Resolves when it has ended; reads continue. */
  freeze(): Promise<void>;
  unfreeze(): Promise<void>;
  /** Everything is at the destination: writers here need not wait. Undone by {@link unfreeze}. */
  moved(): void;
  logger: Logger;
  now?: () => number;
}

/** The move of a running deployment; one at a time. */
export interface Migration {
  /** @throws AppError `state_conflict` if a move is under way, or is done and neither started from nor canceled */
  begin(open: () => Promise<Destination>): Promise<MigrationProgress>;
  /** Null if none was begun since this process started. */
  current(): MigrationProgress | null;
  /** Cancels the move and makes the service accept writes again; the source counts. @throws AppError if there is none to cancel */
  cancel(): Promise<MigrationProgress>;
  /** Resolves when no move is under way. */
  settled(): Promise<void>;
  stop(): Promise<void>;
}

const KEPT_ERRORS = 100;

/**
 * {@link Migration}. Objects are copied first, then rows, both while the service runs. Later changes follow while writes are refused. Rows
 * are written, read back and compared in one transaction: the destination has all of them, or none. An interrupted move begins again, and
 * finds the objects that were copied.
 */
export function createMigration(parts: MigrationParts): Migration {
  const { logger, now = Date.now } = parts;
  let progress: MigrationProgress | null = null;
  let abort = new AbortController();
  let running: Promise<void> = Promise.resolve();
  let opening = false;
  let stopping = false;

  const unfreeze = async (of: MigrationProgress) => {
    // A stopping service must not be made to accept writes again.
    if (!of.frozen || stopping) return;
    await parts.unfreeze();
    of.frozen = false;
  };

  const conduct = async (of: MigrationProgress, destination: Destination, signal: AbortSignal): Promise<void> => {
    let outcome: MigrationState = 'done';
    try {
      const source = parts.openSource();
      try {
        await moveDeployment(of, { ...parts, source, destination, signal });
      } finally {
        source.close();
      }
      logger.info({ destination: of.destination }, 'deployment moved; this service accepts no more writes');
    } catch (error) {
      outcome = signal.aborted ? 'canceled' : 'failed';
      if (error instanceof MoveRefusedError) {
        of.errors = error.errors.slice(0, KEPT_ERRORS);
        of.errorCount = error.errors.length;
      } else if (outcome === 'failed') {
        logger.error({ err: error }, 'the deployment could not be moved');
        // An unforeseen error may contain secrets. An AppError is fit for a client.
        const known = error instanceof AppError || (error instanceof Error && error.name === 'DatabaseRefusedError');
        const message = known ? error.message : 'Something went wrong; the log of the service says what.';
        of.errors = [{ key: null, message }];
        of.errorCount = 1;
      }
      await unfreeze(of);
    } finally {
      await destination.close().catch((error: unknown) => logger.warn({ err: error }, 'the destination did not close'));
      of.endedAtMs = now();
      of.state = outcome;
      if (outcome === 'done') parts.moved();
    }
  };

  return {
    async begin(open) {
      if (opening || progress?.state === 'running') {
        throw new AppError('state_conflict', 'A migration is under way. See how far it is, or cancel it.');
      }
      if (progress?.state === 'done') {
        throw new AppError(
          'state_conflict',
          'The deployment was moved. Start the service at the destination, or cancel the migration to go on here.',
        );
      }
      opening = true;
      try {
        const destination = await open();
        const begun: MigrationProgress = {
          ...{ state: 'running', phase: 'objects', startedAtMs: now(), endedAtMs: null, frozen: false },
          destination: { database: destination.database.shown, storage: destination.storageShown },
          objects: { passes: 0, verified: 0, verifiedBytes: 0, copied: 0, copiedBytes: 0 },
          extent: null,
          ...{ copiedRows: 0, tables: [], openUploads: null, frozenAtMs: null, errorCount: 0, errors: [] },
        };
        progress = begun;
        abort = new AbortController();
        running = conduct(begun, destination, abort.signal).catch((error: unknown) =>
          logger.error({ err: error }, 'writes could not be taken again after a migration'),
        );
        return begun;
      } finally {
        opening = false;
      }
    },

    current: () => progress,

    async cancel() {
      if (progress === null) throw new AppError('not_found', 'No migration was begun since this service started.');
      // A move that failed to accept writes again must still be ended.
      if (progress.state !== 'running' && progress.state !== 'done' && !progress.frozen) {
        throw new AppError('state_conflict', 'The migration is over, and the service takes writes.');
      }
      abort.abort(new Error('the migration was canceled'));
      await running;
      // It may have ended before it noticed the abort.
      progress.state = 'canceled';
      await unfreeze(progress);
      return progress;
    },

    settled: () => running,

    async stop() {
      stopping = true;
      abort.abort(new Error('the service stops'));
      await running;
    },
  };
}
