import { AppError } from '../http/app-error.ts';
import type { Logger } from '../logger.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import type { DestinationDatabase } from './destination.ts';
import { createObjectCopy, type ObjectFigures } from './object-copy.ts';
import { copyRows, sumUpRows } from './row-copy.ts';
import type { TableSum } from './rows-checksum.ts';
import type { SourceDatabase } from './source-database.ts';
import { tablesToCopy } from './tables.ts';

export type MigrationState = 'running' | 'done' | 'failed' | 'canceled';
export type MigrationPhase = 'objects' | 'freeze' | 'last_objects' | 'rows' | 'verify' | 'done';

/** What is wrong, with the object that it is about. */
export interface MigrationError {
  key: string | null;
  message: string;
}

/** How far a move is. */
export interface MigrationStanding {
  state: MigrationState;
  phase: MigrationPhase;
  startedAtMs: number;
  endedAtMs: number | null;
  /** Whether writes are refused at the moment. */
  frozen: boolean;
  destination: { database: string; storage: string };
  objects: ObjectFigures;
  copiedRows: number;
  /** Once they are verified: equal on both sides. */
  tables: ({ name: string } & TableSum)[];
  /** Resumable uploads that were on their way, of which nothing moves; known from the freeze on. */
  openUploads: number | null;
  /** All of them, and the first few. */
  errorCount: number;
  errors: MigrationError[];
}

/** Where to: opened, and closed when the move is over. */
export interface Destination {
  database: DestinationDatabase;
  store: ObjectStore;
  /** What the storage is called; holds no secret. */
  storageShown: string;
  close(): Promise<void>;
}

export interface MigrationParts {
  store: ObjectStore;
  openSource(): SourceDatabase;
  scratchDir: string;
  /** Ends everything that writes media, or resolves once it has ended; reading goes on. */
  freeze(): Promise<void>;
  unfreeze(): Promise<void>;
  logger: Logger;
  now?: () => number;
}

/** The move of a running deployment; one at a time. */
export interface Migration {
  /** @throws AppError `state_conflict` where one is under way, or done and neither started from nor canceled */
  begin(open: () => Promise<Destination>): Promise<MigrationStanding>;
  /** Null where none was begun since this process started. */
  current(): MigrationStanding | null;
  /** Ends it, and has the service take writes again; the source is what counts. @throws AppError where there is none to cancel */
  cancel(): Promise<MigrationStanding>;
  /** Resolves when nothing is under way. */
  settled(): Promise<void>;
  stop(): Promise<void>;
}

const KEPT_ERRORS = 100;
/** Before the freeze. */
const MAX_PASSES = 10;

/**
 * {@link Migration}. The objects go first, while everything goes on; what came meanwhile follows, and the rows, while nobody writes. Rows are
 * written, read back and compared in one transaction: the destination has all of them, or none. So an interrupted move is
 * begun again, and finds the objects that are there already.
 */
export function createMigration(parts: MigrationParts): Migration {
  const { logger, now = Date.now } = parts;
  let standing: MigrationStanding | null = null;
  let abort = new AbortController();
  let running: Promise<void> = Promise.resolve();
  let opening = false;
  let stopping = false;

  const unfreeze = async (of: MigrationStanding) => {
    // What would be started again is about to be stopped.
    if (!of.frozen || stopping) return;
    await parts.unfreeze();
    of.frozen = false;
  };

  const fail = (of: MigrationStanding, errors: readonly MigrationError[], count = errors.length): never => {
    of.errors = errors.slice(0, KEPT_ERRORS);
    of.errorCount = count;
    throw new MigrationStoppedError();
  };

  const run = async (of: MigrationStanding, source: SourceDatabase, destination: Destination, signal: AbortSignal) => {
    const { database, store } = destination;
    const copy = createObjectCopy({ from: parts.store, to: store, scratchDir: parts.scratchDir });
    of.objects = copy.figures;
    const copyObjects = async (): Promise<number> => {
      const news = await copy.pass(source.recordedSha256, signal);
      if (copy.damaged.size > 0)
        fail(
          of,
          [...copy.damaged].map(([key, message]) => ({ key, message })),
        );
      return news;
    };
    // Each pass finds what came during the one before; where new media never cease, the freeze waits for the last of them.
    while ((await copyObjects()) > 0 && copy.figures.passes < MAX_PASSES);

    of.phase = 'freeze';
    // Before: what throws half-way is taken back, too.
    of.frozen = true;
    await parts.freeze();
    signal.throwIfAborted();

    of.phase = 'last_objects';
    source.hold();
    of.openUploads = source.openUploads();
    await copyObjects();
    const tables = tablesToCopy();
    of.phase = 'rows';
    of.tables = await database.transaction(async (client) => {
      const onRows = (count: number) => {
        of.copiedRows += count;
      };
      const sources = await copyRows(source, client, { tables, signal, onRows });
      of.phase = 'verify';
      const verified: MigrationStanding['tables'] = [];
      for (const table of tables) {
        const copied = await sumUpRows(client, table, signal);
        const read = sources.get(table.name);
        if (read?.rows !== copied.rows || read.sha256 !== copied.sha256) {
          fail(of, [{ key: null, message: `The rows of ${table.name} are not the same at the destination.` }]);
        }
        verified.push({ name: table.name, ...copied });
      }
      await verifyObjects(of, source, store, signal);
      signal.throwIfAborted();
      return verified;
    });
    of.phase = 'done';
  };

  const verifyObjects = async (
    of: MigrationStanding,
    source: SourceDatabase,
    store: ObjectStore,
    signal: AbortSignal,
  ) => {
    const there = new Map<string, number>();
    for await (const { key, bytes } of store.list('')) {
      signal.throwIfAborted();
      there.set(key, bytes);
    }
    const missing = new Map<string, string>();
    for (const { key, bytes } of source.referredObjects()) {
      const found = there.get(key);
      if (found === undefined)
        missing.set(key, 'A medium needs it, and it is not there. `mds doctor` says what can be done.');
      else if (found !== bytes) missing.set(key, `It has ${found} bytes, and ${bytes} are recorded.`);
    }
    if (missing.size > 0)
      fail(
        of,
        [...missing].map(([key, message]) => ({ key, message })),
      );
  };

  const conduct = async (of: MigrationStanding, destination: Destination, signal: AbortSignal): Promise<void> => {
    let outcome: MigrationState = 'done';
    try {
      const source = parts.openSource();
      try {
        await run(of, source, destination, signal);
      } finally {
        source.close();
      }
      logger.info({ destination: of.destination }, 'the deployment was moved; this service takes no writes any more');
    } catch (error) {
      outcome = signal.aborted ? 'canceled' : 'failed';
      if (outcome === 'failed' && !(error instanceof MigrationStoppedError)) {
        logger.error({ err: error }, 'the deployment could not be moved');
        // Whatever it is may name what nobody should see; what does not is an answer already.
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
    }
  };

  return {
    async begin(open) {
      if (opening || standing?.state === 'running') {
        throw new AppError('state_conflict', 'A migration is under way. See how far it is, or cancel it.');
      }
      if (standing?.state === 'done') {
        throw new AppError(
          'state_conflict',
          'The deployment was moved. Start the service at the destination, or cancel the migration to go on here.',
        );
      }
      opening = true;
      try {
        const destination = await open();
        const begun: MigrationStanding = {
          ...{ state: 'running', phase: 'objects', startedAtMs: now(), endedAtMs: null, frozen: false },
          destination: { database: destination.database.shown, storage: destination.storageShown },
          objects: { passes: 0, verified: 0, copied: 0, copiedBytes: 0 },
          ...{ copiedRows: 0, tables: [], openUploads: null, errorCount: 0, errors: [] },
        };
        standing = begun;
        abort = new AbortController();
        running = conduct(begun, destination, abort.signal).catch((error: unknown) =>
          logger.error({ err: error }, 'writes could not be taken again after a migration'),
        );
        return begun;
      } finally {
        opening = false;
      }
    },

    current: () => standing,

    async cancel() {
      if (standing === null) throw new AppError('not_found', 'No migration was begun since this service started.');
      if (standing.state !== 'running' && standing.state !== 'done') {
        throw new AppError('state_conflict', 'The migration is over, and the service takes writes.');
      }
      abort.abort(new Error('the migration was canceled'));
      await running;
      // It may have come to its end before it noticed.
      standing.state = 'canceled';
      await unfreeze(standing);
      return standing;
    },

    settled: () => running,

    async stop() {
      stopping = true;
      abort.abort(new Error('the service stops'));
      await running;
    },
  };
}

/** Said already, in the standing. */
class MigrationStoppedError extends Error {
  override name = 'MigrationStoppedError';
}
